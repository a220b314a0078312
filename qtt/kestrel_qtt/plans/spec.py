"""The content of a stored `spec.json`: a case as JSON, in the members that `kestrel_qtt.cases.decode` reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from kestrel_qtt.cases.model import (
    Case,
    ExpectedLog,
    ExpectedSource,
    ExpectedTopic,
    FormatInfo,
    InputRecord,
    OutputRecord,
    Post,
    SchemaReference,
    Topic,
)

Members = dict[str, Any]


def case_document(case: Case) -> Members:
    """Return the expanded case as JSON, without None and without defaults of the format."""
    return {
        "name": case.name,
        **_given(
            properties=dict(case.properties),
            topics=[_topic(topic) for topic in case.topics],
            variables=dict(case.variables),
            ignore=list(case.matching.ignore),
            unordered=case.matching.unordered or None,
            tolerance=case.matching.tolerance,
        ),
        "statements": list(case.statements),
        **_given(inputs=[_record(record) for record in case.inputs]),
        **({} if case.outputs is None else {"outputs": [_record(record) for record in case.outputs]}),
        **({} if case.post is None else {"post": _post(case.post)}),
        **({} if case.log is None else {"log": [_log(entry) for entry in case.log]}),
    }


def _given(**members: object) -> Members:
    """Return the members that are not None and not empty."""
    return {name: value for name, value in members.items() if value is not None and value not in ([], {})}


def _record(record: InputRecord | OutputRecord) -> Members:
    window = record.window
    return {
        "topic": record.topic,
        **_given(timestamp=record.timestamp, partition=record.partition, offset=record.offset),
        **({} if record.key is None else {"key": record.key}),
        **_content(record),
        **({} if window is None else {"window": {"start": window.start, "end": window.end, "type": window.kind}}),
        **_given(headers=[{"KEY": key, "VALUE": _base64(value)} for key, value in record.headers]),
    }


def _content(record: InputRecord | OutputRecord) -> Members:
    cells = record.cells if isinstance(record, InputRecord) else None
    return {"value": record.value} if cells is None else {"cells": dict(cells)}


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


def _topic(topic: Topic) -> Members:
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "replicas": topic.replicas,
        **_given(
            keyFormat=topic.key_format,
            valueFormat=topic.value_format,
            keySchemaId=topic.key_schema_id,
            valueSchemaId=topic.value_schema_id,
            keySchemaReferences=[_reference(r) for r in topic.key_references],
            valueSchemaReferences=[_reference(r) for r in topic.value_references],
            keySerdeFeatures=sorted(topic.key_features),
            valueSerdeFeatures=sorted(topic.value_features),
        ),
        **_schemas(topic),
    }


def _schemas(topic: Topic | ExpectedTopic) -> Members:
    schemas = {"keySchema": topic.key_schema, "valueSchema": topic.value_schema}
    return {name: schema for name, schema in schemas.items() if schema is not None}


def _reference(reference: SchemaReference) -> Members:
    return {"name": reference.name, "format": reference.format, "schema": reference.schema}


def _post(post: Post) -> Members:
    topics = _given(blacklist=post.blacklist, topics=[_expected_topic(topic) for topic in post.topics])
    return _given(sources=[_source(source) for source in post.sources], topics=topics)


def _source(source: ExpectedSource) -> Members:
    kind, size = source.key_window
    key = {"keyFormat": _given(format=source.key_format, windowType=kind, windowSize=size)} if source.checks_key else {}
    return {
        "name": source.name,
        "type": source.kind,
        **key,
        **_given(schema=source.schema, valueFormat=source.value_format, isSource=source.is_source),
        **({} if source.key_features is None else {"keyFeatures": sorted(source.key_features)}),
        **({} if source.value_features is None else {"valueFeatures": sorted(source.value_features)}),
    }


def _expected_topic(topic: ExpectedTopic) -> Members:
    return {
        "name": topic.name,
        "keyFormat": _format(topic.key_format),
        "valueFormat": _format(topic.value_format),
        **_given(partitions=topic.partitions, keySchemaId=topic.key_schema_id, valueSchemaId=topic.value_schema_id),
        **_schemas(topic),
    }


def _format(info: FormatInfo) -> Members:
    size = None if info.window_size is None else Decimal(info.window_size) / 1000
    return {
        "format": info.format,
        **_given(
            properties=dict(info.properties),
            features=sorted(info.features),
            windowInfo=_given(type=info.window_type, size=size),
        ),
    }


def _log(entry: ExpectedLog) -> Members:
    return _given(type=entry.type, message=entry.message, topic=entry.topic, offset=entry.offset)


def write_json(document: object) -> str:
    """Write JSON with an indent of two spaces and a final line feed; decimals keep their digits."""
    return "".join(_parts(document, "\n")) + "\n"


def _parts(value: object, newline: str) -> Iterator[str]:
    inner = newline + "  "
    match value:
        case Decimal():
            yield str(value)
        case Mapping() if value:
            for i, (key, member) in enumerate(value.items()):
                yield f"{',' if i else '{'}{inner}{json.dumps(key)}: "
                yield from _parts(member, inner)
            yield newline + "}"
        case list() if value:
            for i, item in enumerate(value):
                yield f"{',' if i else '['}{inner}"
                yield from _parts(item, inner)
            yield newline + "]"
        case _:
            yield json.dumps(value, ensure_ascii=isinstance(value, str) and not _is_text(value))


def _is_text(value: str) -> bool:
    """Say whether UTF-8 can hold the string. Half a surrogate pair is written as an escape."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
