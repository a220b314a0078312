"""Converts JSON schemas to Connect schemas, and generates them from columns (rules F4.5)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal as PreciseDecimal
from itertools import count
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.connect.schema import MAX_DEPTH, MAX_PARTS, ConnectSchema, Kind, simple, struct_of
from kestrel_sql.formats.json.values import default_of
from kestrel_sql.java.hash_order import java_hash_order
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, Primitive, SqlType, Struct

CONNECT_DATA = "org.apache.kafka.connect.data"

_TITLES = {
    f"{CONNECT_DATA}.Date": Kind.DATE,
    f"{CONNECT_DATA}.Time": Kind.TIME,
    f"{CONNECT_DATA}.Timestamp": Kind.TIMESTAMP,
}
_NUMBERS = {
    "int8": Kind.INT8,
    "int16": Kind.INT16,
    "int32": Kind.INT32,
    "int64": Kind.INT64,
    "float32": Kind.FLOAT32,
    "float64": Kind.FLOAT64,
}
_REFINED = {"integer": _NUMBERS, "number": _NUMBERS, "string": {"bytes": Kind.BYTES}}
"""The kinds that `connect.type` selects for a JSON type; other values of `connect.type` are ignored."""

_BY_TYPE = {"boolean": Kind.BOOLEAN, "integer": Kind.INT64, "number": Kind.FLOAT64, "string": Kind.STRING}


class _Scope(msgspec.Struct, frozen=True):
    root: Any
    imports: Mapping[str, str]
    parts: Iterator[int]


def parse_text(text: str, imports: Mapping[str, str]) -> ConnectSchema:
    """Return the Connect form of a JSON schema.

    Raises:
        FormatError: the text is not a JSON schema, or has no Connect form.
    """
    try:
        root = _load(text)
        return _convert(root, _Scope(root, imports, count()), 0)
    except FormatError:
        raise
    except Exception as error:
        # Schemas come from users, so any failure is one of the schema.
        raise FormatError(f"Not a JSON schema: {error}") from error


def _load(text: str) -> object:
    # A default may be a DECIMAL with more digits than a double has.
    return json.loads(text, parse_float=PreciseDecimal)


def _follow(reference: str, scope: _Scope) -> tuple[object, _Scope]:
    name, _, pointer = reference.partition("#")
    if name:
        if name not in scope.imports:
            raise FormatError(f"JSON schema refers to an unknown schema: {name}")
        root = _load(scope.imports[name])
        scope = _Scope(root, scope.imports, scope.parts)
    target = scope.root
    for part in pointer.strip("/").split("/") if pointer.strip("/") else ():
        target = target[part.replace("~1", "/").replace("~0", "~")]
    return target, scope


def _convert(schema: object, scope: _Scope, depth: int) -> ConnectSchema:
    if depth > MAX_DEPTH:
        raise FormatError("JSON schema is recursive or too deeply nested")
    if next(scope.parts) > MAX_PARTS:
        raise FormatError("JSON schema has too many parts")
    if not isinstance(schema, dict):
        raise FormatError("JSON schema without a type")
    if "$ref" in schema:
        target, inner = _follow(schema["$ref"], scope)
        return _convert(target, inner, depth + 1)
    for keyword in ("oneOf", "anyOf", "allOf"):
        if keyword in schema:
            return _choice(schema[keyword], scope, depth)
    kind = schema.get("type")
    plain = {name: member for name, member in schema.items() if name != "default"}
    if isinstance(kind, list):
        return _choice([{**plain, "type": each} for each in kind], scope, depth)
    if kind is not None and "enum" in schema:
        # To Connect this is a choice as well, whose default it ignores.
        return _plain(schema, kind, scope, depth)
    connect = _plain(schema, kind, scope, depth)
    return replace(connect, default=default_of(connect, schema["default"])) if "default" in schema else connect


def _choice(branches: Sequence[Mapping[str, object]], scope: _Scope, depth: int) -> ConnectSchema:
    others = [branch for branch in branches if branch.get("type") != "null"]
    if len(others) != 1:
        raise FormatError("JSON schemas that allow several types are not supported")
    connect = _convert(others[0], scope, depth + 1)
    return connect.as_optional() if len(others) < len(branches) else connect


def _plain(schema: dict[str, Any], kind: object, scope: _Scope, depth: int) -> ConnectSchema:
    if kind == "array":
        return _array(schema, scope, depth)
    if kind == "object":
        return _object(schema, scope, depth)
    title = schema.get("title")
    if title == f"{CONNECT_DATA}.Decimal":
        parameters = schema.get("connect.parameters", {})
        precision, scale = int(parameters.get("connect.decimal.precision", 64)), int(parameters.get("scale", 0))
        return ConnectSchema(Kind.DECIMAL, precision=precision, scale=scale)
    if title in _TITLES:
        return simple(_TITLES[title])
    if "enum" in schema:
        return simple(Kind.STRING)
    if kind not in _BY_TYPE:
        raise FormatError(f"JSON schema type without SQL counterpart: {kind}")
    return simple(_REFINED.get(kind, {}).get(str(schema.get("connect.type")), _BY_TYPE[kind]))


def _array(schema: dict[str, object], scope: _Scope, depth: int) -> ConnectSchema:
    item = _convert(schema["items"], scope, depth + 1)
    if schema.get("connect.type") == "map":
        entry = {field.name: field.schema for field in item.fields}
        return ConnectSchema(Kind.MAP, key=entry["key"], item=entry["value"])
    return ConnectSchema(Kind.ARRAY, item=item)


def _object(schema: dict[str, Any], scope: _Scope, depth: int) -> ConnectSchema:
    more = schema.get("additionalProperties")
    if schema.get("connect.type") == "map" or ("properties" not in schema and isinstance(more, dict)):
        return ConnectSchema(Kind.MAP, key=simple(Kind.STRING), item=_convert(more, scope, depth + 1))
    required = schema.get("required", ())
    fields = []
    for name, each in _ordered(schema.get("properties", {})):
        connect = _convert(each, scope, depth + 1)
        fields.append((name, connect if name in required else connect.as_optional()))
    return struct_of(fields)


def _ordered(properties: dict[str, Any]) -> list[tuple[str, Any]]:
    """Sort properties by index; the index of others is their position in the `HashMap` of Connect's reader."""
    listed = [(name, properties[name]) for name in java_hash_order(properties)]
    places = {name: each.get("connect.index", at) for at, (name, each) in enumerate(listed)}
    return sorted(listed, key=lambda each: places[each[0]])


def schema_text(columns: tuple[Column, ...], unwrapped: bool) -> str:
    """Write the schema of a sink; all properties are optional and have an index."""
    if unwrapped:
        return json.dumps(_optional(columns[0].type))
    return json.dumps(_properties(tuple((column.name, column.type) for column in columns)))


def _properties(fields: tuple[tuple[str, SqlType], ...]) -> dict[str, object]:
    members = {name: {"connect.index": at, **_optional(sql_type)} for at, (name, sql_type) in enumerate(fields)}
    return {"type": "object", "properties": members}


def _optional(sql_type: SqlType) -> dict[str, object]:
    return {"oneOf": [{"type": "null"}, _type(sql_type)]}


def _logical(kind: str, name: str, connect_type: str) -> dict[str, object]:
    return {"type": kind, "title": f"{CONNECT_DATA}.{name}", "connect.version": 1, "connect.type": connect_type}


def _type(sql_type: SqlType) -> dict[str, object]:
    match sql_type:
        case Primitive(base):
            return dict(_PRIMITIVE[base])
        case Decimal(precision, scale):
            parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
            return {**_logical("number", "Decimal", "bytes"), "connect.parameters": parameters}
        case Array(item):
            return {"type": "array", "items": _optional(item)}
        case Map(_, value):
            return {"type": "object", "connect.type": "map", "additionalProperties": _optional(value)}
        case Struct(fields):
            return _properties(tuple((field.name, field.type) for field in fields))
        case _:
            raise FormatError(f"JSON schema has no type for {sql_type}")


_PRIMITIVE: dict[Base, dict[str, Any]] = {
    Base.BOOLEAN: {"type": "boolean"},
    Base.INTEGER: {"type": "integer", "connect.type": "int32"},
    Base.BIGINT: {"type": "integer", "connect.type": "int64"},
    Base.DOUBLE: {"type": "number", "connect.type": "float64"},
    Base.STRING: {"type": "string"},
    Base.BYTES: {"type": "string", "connect.type": "bytes"},
    Base.DATE: _logical("integer", "Date", "int32"),
    Base.TIME: _logical("integer", "Time", "int32"),
    Base.TIMESTAMP: _logical("integer", "Timestamp", "int64"),
}
