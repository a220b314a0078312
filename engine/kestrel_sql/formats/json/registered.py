"""Converts between JSON_SR bodies and Connect values, as Connect's JsonSchemaConverter does."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import orjson

from kestrel_sql.formats.connect.codec import SchemaCodec
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind, Missing
from kestrel_sql.formats.json import text as json_text
from kestrel_sql.formats.json.schema import parse_text
from kestrel_sql.formats.serde import ConversionError
from kestrel_sql.java.numbers import EXACT, java_double, truncate_decimal, wrap_integer

Convert = Callable[[Any], Any]

_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64, Kind.DATE: 32, Kind.TIME: 32, Kind.TIMESTAMP: 64}


def open_codec(text: str, imports: Mapping[str, str], name: str | None) -> SchemaCodec:
    """Return the codec of a JSON schema.

    Raises:
        FormatError: the schema is invalid, or has no Connect form.
    """
    schema = parse_text(text, imports)
    from_json, to_json = reader(schema), writer(schema)

    def read(body: bytes) -> Any:
        return from_json(json_text.read_exact(body))

    def write(value: Any) -> bytes:
        return orjson.dumps(to_json(value))

    return SchemaCodec(schema, read, write)


def reader(schema: ConnectSchema) -> Convert:
    """Return the conversion from a parsed JSON value, including null, to a Connect value."""
    convert = _reader(schema)

    def read(value: Any) -> Any:
        if value is not None:
            return convert(value)
        if schema.default is not Missing.MISSING:
            return schema.default
        if schema.optional:
            return None
        raise ConversionError(f"Invalid null value for required {schema.kind.value} field")

    return read


def _reader(schema: ConnectSchema) -> Convert:
    match schema.kind:
        case Kind.ARRAY:
            return _items(reader(schema.only_item), list)
        case Kind.MAP:
            return _members(reader(schema.only_item), schema.key is not None and schema.key.kind is Kind.STRING)
        case Kind.STRUCT:
            return _struct_reader(tuple((field.name, reader(field.schema)) for field in schema.fields))
        case Kind.DECIMAL:
            return _decimal(schema.scale)
        case Kind.FLOAT32 | Kind.FLOAT64:
            return _double
        case Kind.BYTES:
            return lambda value: base64.b64decode(value, validate=True)
        case Kind.STRING:
            # Jackson's textValue() and booleanValue() return null and false for other nodes.
            return lambda value: value if type(value) is str else None
        case Kind.BOOLEAN:
            return lambda value: value is True
        case kind:
            return _integer(_BITS[kind])


def _require(value: Any, kind: type, description: str) -> None:
    if type(value) is not kind:
        raise ConversionError(f"Expected {description}, found {type(value).__name__}")


def _items(convert: Convert, kind: type) -> Convert:
    def read(value: Any) -> list[Any]:
        _require(value, kind, "an array")
        return [convert(item) for item in value]

    return read


def _members(convert: Convert, text_keys: bool) -> Convert:
    def read(value: Any) -> dict[Any, Any]:
        if type(value) is list:
            for entry in value if text_keys else ():
                _require(entry["key"], str, "a string")
            return {entry["key"]: convert(entry["value"]) for entry in value}
        _require(value, dict, "an object")
        return {key: convert(item) for key, item in value.items()}

    return read


def _struct_reader(fields: tuple[tuple[str, Convert], ...]) -> Convert:
    def read(value: Any) -> dict[str, Any]:
        _require(value, dict, "an object")
        members: dict[str, Any] = {}
        for name, convert in fields:
            try:
                members[name] = convert(value.get(name))
            except ConversionError as error:
                error.prepend(f".{name}")
                raise
        return members

    return read


def _integer(bits: int) -> Convert:
    def read(value: Any) -> int:
        if type(value) is int:
            return wrap_integer(value, bits)
        return truncate_decimal(value, bits) if type(value) is Decimal else 0

    return read


def _double(value: Any) -> float:
    if type(value) is int or type(value) is Decimal:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    return 0.0


def _decimal(scale: int) -> Convert:
    def read(value: Any) -> Decimal:
        if type(value) is int or type(value) is Decimal:
            return Decimal(value)
        unscaled = int.from_bytes(base64.b64decode(value, validate=True)[:1000], "big", signed=True)
        return Decimal(unscaled).scaleb(-scale, EXACT)

    return read


def writer(schema: ConnectSchema) -> Convert:
    """Return the conversion from a Connect value, including None, to a value that orjson writes as Connect does."""
    convert = _writer(schema)
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _writer(schema: ConnectSchema) -> Convert | None:
    match schema.kind:
        case Kind.ARRAY:
            write_item = writer(schema.only_item)
            return lambda items: [write_item(item) for item in items]
        case Kind.MAP:
            write_value = writer(schema.only_item)
            return lambda members: {key: write_value(item) for key, item in members.items()}
        case Kind.STRUCT:
            fields = tuple((field.name, writer(field.schema)) for field in schema.fields)
            return lambda members: {name: convert(members.get(name)) for name, convert in fields}
        case Kind.DECIMAL:
            return lambda value: orjson.Fragment(format(value, "f"))
        case Kind.FLOAT32 | Kind.FLOAT64:
            return lambda value: orjson.Fragment(java_double(value)) if math.isfinite(value) else java_double(value)
        case Kind.BYTES:
            return lambda value: binascii.b2a_base64(value, newline=False).decode("ascii")
        case _:
            return None
