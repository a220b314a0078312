"""Converts between JSON_SR bodies and Connect values, as Connect's JsonSchemaConverter does."""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from kestrel_sql.formats.connect.codec import SchemaCodec
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind
from kestrel_sql.formats.json import text as json_text
from kestrel_sql.formats.json.schema import parse_text
from kestrel_sql.formats.json.values import reader
from kestrel_sql.java.numbers import java_double

Convert = Callable[[Any], Any]


def open_codec(text: str, imports: Mapping[str, str], name: str | None) -> SchemaCodec:
    """Return the codec of a JSON schema.

    Raises:
        FormatError: the schema is invalid, or has no Connect form.
    """
    schema = parse_text(text, imports)
    from_json, to_json = reader(schema), writer(schema)

    def read(body: bytes) -> object:
        return from_json(json_text.read_exact(body))

    def write(value: object) -> bytes:
        return json_text.write_fast(to_json(value))

    return SchemaCodec(schema, read, write)


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
