"""Turn the plain values of a case into its dataclasses; members that are not named here are ignored."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from kestrel_qtt.cases.matching import Matching
from kestrel_qtt.cases.model import (
    ExpectedException,
    ExpectedLog,
    ExpectedSource,
    ExpectedTopic,
    FormatInfo,
    Headers,
    InputRecord,
    OutputRecord,
    Post,
    SchemaReference,
    SerdeInfo,
    Topic,
    Window,
)

Members = Mapping[str, Any]


class DecodeError(ValueError):
    """A value of a case that is missing or of the wrong kind."""


def required(members: Members, name: str, kind: type) -> Any:
    """The member `name`, which must be there and of type `kind`; raise DecodeError."""
    value = members.get(name)
    if not isinstance(value, kind):
        shown = "is missing" if name not in members else f"must be a {_KINDS[kind]}"
        raise DecodeError(f"`{name}` {shown}")
    return value


_KINDS = {str: "string", dict: "object", list: "list", int: "integer"}


def listed(members: Members, name: str, kind: type = dict) -> list[Any]:
    """The list `name`, empty where it is missing or null, with elements of type `kind`; raise DecodeError."""
    value = members.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(element, kind) for element in value):
        raise DecodeError(f"`{name}` must be a list of {_KINDS[kind]}s")
    return value


def window_of(members: Members) -> Window | None:
    """The window of a record, or None."""
    window = members.get("window")
    if window is None:
        return None
    if not isinstance(window, dict) or str(window.get("type")).lower() not in ("time", "session"):
        raise DecodeError("`window` must be an object with start, end and a type of time or session")
    return Window(required(window, "start", int), required(window, "end", int), window["type"].lower())


def headers_of(members: Members) -> Headers:
    """The headers of a record; values are base64 text; raise DecodeError."""
    headers = []
    for header in listed(members, "headers"):
        text = header.get("VALUE")
        try:
            value = None if text is None else base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise DecodeError(f"the header value {text!r} is not base64 text") from error
        headers.append((str(required(header, "KEY", str)), value))
    return tuple(headers)


def input_of(members: Members) -> InputRecord:
    """One record to feed; raise DecodeError."""
    _check_record(members)
    return InputRecord(
        topic=required(members, "topic", str),
        key=members.get("key"),
        value=members.get("value"),
        timestamp=_integer(members, "timestamp") or 0,
        window=window_of(members),
        headers=headers_of(members),
        partition=_integer(members, "partition"),
        offset=_integer(members, "offset"),
        cells=members.get("cells"),
    )


def output_of(members: Members, line: int | None) -> OutputRecord:
    """One expected record, at `line` of its file; raise DecodeError."""
    _check_record(members)
    return OutputRecord(
        topic=required(members, "topic", str),
        key=members.get("key"),
        value=members["value"],
        timestamp=_integer(members, "timestamp"),
        window=window_of(members),
        headers=headers_of(members),
        partition=_integer(members, "partition"),
        offset=_integer(members, "offset"),
        line=line,
    )


def _check_record(members: Members) -> None:
    if "value" not in members and "cells" not in members:
        raise DecodeError("a record has no `value` (null is a tombstone)")


def _integer(members: Members, name: str) -> int | None:
    value = members.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise DecodeError(f"`{name}` must be an integer")
    return value


def topic_of(members: Members) -> Topic:
    """A declared topic, in the spelling of cases or of stored specs (`numPartitions`)."""
    partitions = _integer(members, "partitions") or _integer(members, "numPartitions")
    return Topic(
        name=required(members, "name", str),
        partitions=partitions or 1,
        replicas=_integer(members, "replicas") or 1,
        key_format=_upper(members.get("keyFormat")),
        value_format=_upper(members.get("valueFormat")),
        key_schema=members.get("keySchema"),
        value_schema=members.get("valueSchema"),
        key_schema_id=_integer(members, "keySchemaId"),
        value_schema_id=_integer(members, "valueSchemaId"),
        key_references=_references(members, "keySchemaReferences"),
        value_references=_references(members, "valueSchemaReferences"),
        key_features=_features(members, "keySerdeFeatures") or frozenset(),
        value_features=_features(members, "valueSerdeFeatures") or frozenset(),
    )


def _upper(text: Any) -> str | None:
    return text.upper() if isinstance(text, str) else None


def _references(members: Members, name: str) -> tuple[SchemaReference, ...]:
    return tuple(
        SchemaReference(required(r, "name", str), required(r, "format", str).upper(), r.get("schema"))
        for r in listed(members, name)
    )


def _features(members: Members, name: str) -> frozenset[str] | None:
    return None if members.get(name) is None else frozenset(listed(members, name, str))


def exception_of(members: Members | None) -> ExpectedException | None:
    """The expected exception, or None."""
    if members is None:
        return None
    if not isinstance(members, dict) or not any(members.get(name) for name in ("type", "message", "code")):
        raise DecodeError("`expectedException` must be an object with a type or a message")
    return ExpectedException(
        message=members.get("message"),
        type=members.get("type"),
        code=members.get("code"),
        cause=members.get("cause"),
        cause_message=members.get("causeMessage"),
    )


def post_of(members: Members | None) -> Post | None:
    """The checks of the final state, in the spelling of cases or of stored specs (`blackList`), or None."""
    if members is None:
        return None
    topics = members.get("topics") or {}
    return Post(
        sources=tuple(map(_source, listed(members, "sources"))),
        blacklist=topics.get("blacklist") or topics.get("blackList"),
        topics=tuple(map(_topic, listed(topics, "topics"))),
    )


def _source(members: Members) -> ExpectedSource:
    key = members.get("keyFormat")
    key_format: Members = key if isinstance(key, dict) else {}
    return ExpectedSource(
        name=required(members, "name", str),
        kind=required(members, "type", str).lower(),
        schema=members.get("schema"),
        checks_key=isinstance(key, dict),
        key_format=key_format.get("format"),
        key_window=(_upper(key_format.get("windowType")), _integer(key_format, "windowSize")),
        value_format=members.get("valueFormat"),
        key_features=_features(members, "keyFeatures"),
        value_features=_features(members, "valueFeatures"),
        is_source=members.get("isSource"),
    )


def _topic(members: Members) -> ExpectedTopic:
    return ExpectedTopic(
        name=required(members, "name", str),
        key_format=_format(required(members, "keyFormat", dict)),
        value_format=_format(required(members, "valueFormat", dict)),
        partitions=_integer(members, "partitions"),
        key_schema_id=_integer(members, "keySchemaId"),
        value_schema_id=_integer(members, "valueSchemaId"),
        key_schema=members.get("keySchema"),
        value_schema=members.get("valueSchema"),
    )


def _format(members: Members) -> FormatInfo:
    window = members.get("windowInfo") or {}
    size = window.get("size")
    return FormatInfo(
        format=required(members, "format", str),
        properties=dict(members.get("properties") or {}),
        features=_features(members, "features") or frozenset(),
        window_type=_upper(window.get("type")),
        window_size=None if size is None else int(Decimal(str(size)) * 1000),
    )


def serdes_of(members: Any) -> dict[str, SerdeInfo] | None:
    """The `schemas` of a stored spec, or None where there are none."""
    if not isinstance(members, dict) or not members:
        return None
    return {name: _serde(entry) for name, entry in members.items()}


def _serde(members: Any) -> SerdeInfo:
    if not isinstance(members, dict):
        raise DecodeError("an entry of `schemas` is an object")
    key, value = members.get("keyFormat"), members.get("valueFormat")
    return SerdeInfo(
        schema=required(members, "schema", str),
        key_format=_format(key) if isinstance(key, dict) else None,
        value_format=_format(value) if isinstance(value, dict) else None,
    )


def log_of(members: Members) -> tuple[ExpectedLog, ...] | None:
    """The expected processing log, or None where the case gives none."""
    if members.get("log") is None:
        return None
    return tuple(
        ExpectedLog(type=e.get("type"), message=e.get("message"), topic=e.get("topic"), offset=_integer(e, "offset"))
        for e in listed(members, "log")
    )


def rules_of(members: Members) -> tuple[str, ...]:
    """The ids of the rules that a case proves; raise DecodeError."""
    return tuple(listed(members, "rules", str))


def matching_of(members: Members) -> Matching:
    """How the outputs of a case are compared; raise DecodeError."""
    tolerance = members.get("tolerance")
    return Matching(
        ignore=tuple(listed(members, "ignore", str)),
        unordered=bool(members.get("unordered")),
        tolerance=None if tolerance is None else Decimal(str(tolerance)),
    )


def outputs_of(members: Members, lines: Sequence[int]) -> tuple[OutputRecord, ...] | None:
    """The expected records with their lines, or None where the case gives none."""
    if members.get("outputs") is None:
        return None
    records = listed(members, "outputs")
    at: list[int | None] = [*lines, *[None] * (len(records) - len(lines))]
    return tuple(output_of(record, line) for record, line in zip(records, at, strict=True))
