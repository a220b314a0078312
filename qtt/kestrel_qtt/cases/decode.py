"""Decode the plain values of a case into structures; unknown members are ignored."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

from kestrel_qtt.cases.model import (
    ExpectedException,
    ExpectedLog,
    ExpectedSource,
    ExpectedTopic,
    FormatInfo,
    Headers,
    InputRecord,
    Json,
    Matching,
    OutputRecord,
    Post,
    SchemaReference,
    SerdeInfo,
    Topic,
    Window,
)

Members = Mapping[str, Json]

_Built = TypeVar("_Built")
_T = TypeVar("_T")

_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1


class DecodeError(ValueError):
    """A value of a case is missing or has the wrong type; `path` is its path from the case."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path = path

    def below(self, *path: str | int) -> DecodeError:
        """Return the error with a path that starts further up."""
        return DecodeError(str(self), *path, *self.path)


def required(members: Members, name: str, kind: type[_T]) -> _T:
    """The member `name`, which must be there and of type `kind`; raise DecodeError."""
    if name not in members:
        raise DecodeError(f"`{name}` is missing")
    return _of_kind(members, name, kind)


def optional(members: Members, name: str, kind: type[_T]) -> _T | None:
    """The member `name` of type `kind`, or None where it is missing or null; raise DecodeError."""
    return None if members.get(name) is None else _of_kind(members, name, kind)


def _of_kind(members: Members, name: str, kind: type[_T]) -> _T:
    value = members[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise DecodeError(f"`{name}` must be {_KINDS[kind]}", name)
    return value


_KINDS = {str: "a string", dict: "an object", list: "a list", int: "an integer", bool: "true or false"}


def listed(members: Members, name: str, kind: type[_T]) -> list[_T]:
    """The list `name`, empty where it is missing or null, with elements of type `kind`; raise DecodeError."""
    value = optional(members, name, list) or []
    for at, element in enumerate(value):
        if not isinstance(element, kind):
            raise DecodeError(f"an element of `{name}` must be {_KINDS[kind]}", name, at)
    return list(value)


def each(members: Members, name: str, build: Callable[[Members], _Built]) -> tuple[_Built, ...]:
    """What `build` makes of each object of the list `name`; raise DecodeError."""
    built = []
    for at, element in enumerate(listed(members, name, dict)):
        try:
            built.append(build(element))
        except DecodeError as error:
            raise error.below(name, at) from error
    return tuple(built)


def below(members: Members, name: str, build: Callable[[Members], _Built]) -> _Built | None:
    """What `build` makes of the object `name`, or None where it is missing or null; raise DecodeError."""
    return None if members.get(name) is None else _needed(members, name, build)


def _needed(members: Members, name: str, build: Callable[[Members], _Built]) -> _Built:
    """What `build` makes of the object `name`, which must be there; raise DecodeError."""
    value = required(members, name, dict)
    try:
        return build(value)
    except DecodeError as error:
        raise error.below(name) from error


def integer(members: Members, name: str, low: int = -_LONG_MAX - 1, high: int = _LONG_MAX) -> int | None:
    """The integer `name`, or None where it is missing or null; raise DecodeError."""
    value = optional(members, name, int)
    if value is not None and not low <= value <= high:
        raise DecodeError(f"`{name}` must be between {low} and {high}", name)
    return value


def window_of(members: Members) -> Window | None:
    """The window of a record, or None; raise DecodeError."""
    return below(members, "window", _window)


def _window(members: Members) -> Window:
    kind = required(members, "type", str).lower()
    if kind not in ("time", "session"):
        raise DecodeError("the `type` of a window is time or session", "type")
    required(members, "start", int)
    required(members, "end", int)
    return Window(integer(members, "start") or 0, integer(members, "end") or 0, kind)


def headers_of(members: Members) -> Headers:
    """The headers of a record; values are base64 text; raise DecodeError."""
    return each(members, "headers", _header)


def _header(members: Members) -> tuple[str, bytes | None]:
    text = optional(members, "VALUE", str)
    try:
        value = None if text is None else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(f"the header value {text!r} is not base64 text", "VALUE") from error
    return required(members, "KEY", str), value


def input_of(members: Members) -> InputRecord:
    """One record to feed; raise DecodeError."""
    _check_record(members)
    return InputRecord(
        topic=required(members, "topic", str),
        key=members.get("key"),
        value=members.get("value"),
        timestamp=integer(members, "timestamp") or 0,
        window=window_of(members),
        headers=headers_of(members),
        partition=integer(members, "partition", 0, _INT_MAX),
        offset=integer(members, "offset", 0),
        cells=optional(members, "cells", dict),
    )


def output_of(members: Members, line: int | None) -> OutputRecord:
    """One expected record, at `line` of its file; raise DecodeError."""
    _check_record(members)
    return OutputRecord(
        topic=required(members, "topic", str),
        key=members.get("key"),
        value=members["value"],
        timestamp=integer(members, "timestamp"),
        window=window_of(members),
        headers=headers_of(members),
        partition=integer(members, "partition", 0, _INT_MAX),
        offset=integer(members, "offset", 0),
        line=line,
    )


def _check_record(members: Members) -> None:
    if "value" not in members and "cells" not in members:
        raise DecodeError("a record has no `value` (null is a tombstone)")


def topic_of(members: Members) -> Topic:
    """A declared topic, in the spelling of cases or of stored specs (`numPartitions`)."""
    partitions = integer(members, "partitions", 1, _INT_MAX) or integer(members, "numPartitions", 1, _INT_MAX)
    return Topic(
        name=required(members, "name", str),
        partitions=partitions or 1,
        replicas=integer(members, "replicas", 1, _INT_MAX) or 1,
        key_format=_upper(members.get("keyFormat")),
        value_format=_upper(members.get("valueFormat")),
        key_schema=members.get("keySchema"),
        value_schema=members.get("valueSchema"),
        key_schema_id=integer(members, "keySchemaId"),
        value_schema_id=integer(members, "valueSchemaId"),
        key_references=_references(members, "keySchemaReferences"),
        value_references=_references(members, "valueSchemaReferences"),
        key_features=_features(members, "keySerdeFeatures") or frozenset(),
        value_features=_features(members, "valueSerdeFeatures") or frozenset(),
    )


def _upper(text: object) -> str | None:
    return text.upper() if isinstance(text, str) else None


def _references(members: Members, name: str) -> tuple[SchemaReference, ...]:
    return each(members, name, _reference)


def _reference(members: Members) -> SchemaReference:
    return SchemaReference(
        required(members, "name", str), required(members, "format", str).upper(), members.get("schema")
    )


def _features(members: Members, name: str) -> frozenset[str] | None:
    return None if members.get(name) is None else frozenset(listed(members, name, str))


def exception_of(members: Members) -> ExpectedException | None:
    """The `expectedException` of a case, or None; raise DecodeError."""
    return below(members, "expectedException", _exception)


def _exception(members: Members) -> ExpectedException:
    if not any(members.get(name) for name in ("type", "message", "code")):
        raise DecodeError("`expectedException` must be an object with a type or a message")
    return ExpectedException(
        message=optional(members, "message", str),
        type=optional(members, "type", str),
        code=optional(members, "code", str),
        cause=optional(members, "cause", str),
        cause_message=optional(members, "causeMessage", str),
    )


def post_of(members: Members) -> Post | None:
    """The `post` of a case, in the spelling of cases or of stored specs (`blackList`), or None; raise DecodeError."""
    return below(members, "post", _post)


def _post(members: Members) -> Post:
    blacklist, topics = below(members, "topics", _post_topics) or (None, ())
    return Post(sources=each(members, "sources", _source), blacklist=blacklist, topics=topics)


def _post_topics(members: Members) -> tuple[str | None, tuple[ExpectedTopic, ...]]:
    blacklist = optional(members, "blacklist", str) or optional(members, "blackList", str)
    try:
        re.compile(blacklist or "")
    except (re.error, OverflowError, RecursionError) as error:
        raise DecodeError(f"the blacklist {blacklist!r} is not a regular expression: {error}", "blacklist") from error
    return blacklist, each(members, "topics", _topic)


def _source(members: Members) -> ExpectedSource:
    key = members.get("keyFormat")
    key_format: Members = key if isinstance(key, dict) else {}
    return ExpectedSource(
        name=required(members, "name", str),
        kind=required(members, "type", str).lower(),
        schema=optional(members, "schema", str),
        checks_key=isinstance(key, dict),
        key_format=optional(key_format, "format", str),
        key_window=(_upper(key_format.get("windowType")), integer(key_format, "windowSize")),
        value_format=optional(members, "valueFormat", str),
        key_features=_features(members, "keyFeatures"),
        value_features=_features(members, "valueFeatures"),
        is_source=optional(members, "isSource", bool),
    )


def _topic(members: Members) -> ExpectedTopic:
    return ExpectedTopic(
        name=required(members, "name", str),
        key_format=_needed(members, "keyFormat", _format),
        value_format=_needed(members, "valueFormat", _format),
        partitions=integer(members, "partitions"),
        key_schema_id=integer(members, "keySchemaId"),
        value_schema_id=integer(members, "valueSchemaId"),
        key_schema=members.get("keySchema"),
        value_schema=members.get("valueSchema"),
    )


def _format(members: Members) -> FormatInfo:
    window_type, window_size = below(members, "windowInfo", _window_info) or (None, None)
    return FormatInfo(
        format=required(members, "format", str),
        properties=optional(members, "properties", dict) or {},
        features=_features(members, "features") or frozenset(),
        window_type=window_type,
        window_size=window_size,
    )


def _window_info(members: Members) -> tuple[str | None, int | None]:
    size = members.get("size")
    if size is not None and (not isinstance(size, int | Decimal) or isinstance(size, bool)):
        raise DecodeError("`size` must be a number of seconds", "size")
    if size is not None and not 0 <= size <= _LONG_MAX // 1000:
        raise DecodeError(f"`size` must be between 0 and {_LONG_MAX // 1000} seconds", "size")
    return _upper(members.get("type")), None if size is None else int(Decimal(size) * 1000)


def serdes_of(spec: Members) -> dict[str, SerdeInfo] | None:
    """The `schemas` of a stored spec, or None where there are none; raise DecodeError."""
    return below(spec, "schemas", _serdes) or None


def _serdes(members: Members) -> dict[str, SerdeInfo]:
    return {name: found for name in members if (found := below(members, name, _serde)) is not None}


def _serde(members: Members) -> SerdeInfo:
    return SerdeInfo(
        schema=required(members, "schema", str),
        key_format=below(members, "keyFormat", _format),
        value_format=below(members, "valueFormat", _format),
    )


def log_of(members: Members) -> tuple[ExpectedLog, ...] | None:
    """The expected processing log, or None where the case gives none; raise DecodeError."""
    return None if members.get("log") is None else each(members, "log", _log_entry)


def _log_entry(members: Members) -> ExpectedLog:
    return ExpectedLog(
        type=optional(members, "type", str),
        message=optional(members, "message", str),
        topic=optional(members, "topic", str),
        offset=integer(members, "offset", 0),
    )


def rules_of(members: Members) -> tuple[str, ...]:
    """The ids of the rules that a case proves; raise DecodeError."""
    return tuple(listed(members, "rules", str))


def matching_of(members: Members) -> Matching:
    """How the outputs of a case are compared; raise DecodeError."""
    tolerance = members.get("tolerance")
    if tolerance is not None and (not isinstance(tolerance, int | Decimal) or isinstance(tolerance, bool)):
        raise DecodeError("`tolerance` must be a number", "tolerance")
    return Matching(
        ignore=tuple(listed(members, "ignore", str)),
        unordered=bool(members.get("unordered")),
        tolerance=None if tolerance is None else Decimal(tolerance),
    )


def outputs_of(members: Members, lines: Sequence[int]) -> tuple[OutputRecord, ...] | None:
    """The expected records with their lines, or None where the case gives none; raise DecodeError."""
    if members.get("outputs") is None:
        return None
    at = iter(lines)
    return each(members, "outputs", lambda record: output_of(record, next(at, None)))
