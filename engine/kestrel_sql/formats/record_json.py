"""Converts the JSON form of keys and values in test cases (rules Q6) to bytes, and bytes to comparable values."""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from typing import Any

from kestrel_sql.errors import EngineError, SerdeError
from kestrel_sql.formats import kafka
from kestrel_sql.formats import source_messages as messages
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind, Missing
from kestrel_sql.formats.json import text as json_text
from kestrel_sql.formats.protobuf import unregistered as protobuf_nosr
from kestrel_sql.formats.registered import framing as framed
from kestrel_sql.formats.registered.languages import language_for
from kestrel_sql.formats.serde import SerdeSpec, describe
from kestrel_sql.java.numbers import fit_decimal, java_double, parse_double, parse_int, parse_long, wrap_integer
from kestrel_sql.java.utf16 import decode_utf8
from kestrel_sql.types.sql_types import BIGINT, BYTES, DOUBLE, STRING, SqlType


def from_json_form(spec: SerdeSpec, value: Any) -> bytes | None:
    """Encode the key or value of an input record; numbers are int or `decimal.Decimal`, None becomes null bytes.

    Raises:
        SerdeError: the format cannot encode the value.
    """
    if value is None:
        return None
    try:
        return _write(spec, value)
    except SerdeError:
        raise
    except (EngineError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError, struct.error) as error:
        raise SerdeError(
            f"Cannot write {spec.side.value} of topic {spec.topic} as {spec.format.format}: {describe(error)}"
        ) from error


def to_json_form(spec: SerdeSpec, data: bytes | None) -> Any:
    """Decode the key or value of an output record.

    Fractions are exact decimals in formats that write text; bytes stay bytes.

    Raises:
        SerdeError: the format cannot decode the bytes.
    """
    if data is None:
        return None
    try:
        return _read(spec, data)
    except SerdeError:
        raise
    except Exception as error:
        raise SerdeError(
            f"Cannot read {spec.side.value} of topic {spec.topic} as {spec.format.format}: {describe(error)}"
        ) from error


def _write(spec: SerdeSpec, value: Any) -> bytes | None:
    match spec.format.format:
        case "NONE":
            return None
        case "JSON":
            return json_text.write_compact(value).encode()
        case "DELIMITED" | "TEXT" | "CSV" | "REGEX":
            return _text(value).encode()
        case "BYTES":
            return base64.b64decode(_text(value), validate=True)
        case "JSON_DOCUMENT":
            # A string is written as it is, so that a case can hold an invalid document.
            return (value if isinstance(value, str) else json_text.write_compact(value)).encode()
        case "KAFKA":
            return _text(value).encode() if not spec.columns else _write_kafka(spec.columns[0].type, value)
        case "PROTOBUF_NOSR":
            codec, schema = protobuf_nosr.open_spec(spec)
            converted = to_connect(schema, value)
            return codec.write({protobuf_nosr.BARE: converted} if protobuf_nosr.is_bare(spec) else converted)
        case _:
            return _write_framed(spec, value)


def _read(spec: SerdeSpec, data: bytes) -> Any:
    match spec.format.format:
        case "NONE":
            return None
        case "JSON":
            return json_text.read_exact(data)
        case "DELIMITED" | "TEXT" | "CSV" | "REGEX":
            return decode_utf8(data)
        case "BYTES":
            return data
        case "JSON_DOCUMENT":
            return json_text.read_exact(data)
        case "KAFKA":
            return decode_utf8(data) if not spec.columns else _read_kafka(spec.columns[0].type, data)
        case "PROTOBUF_NOSR":
            value = protobuf_nosr.open_spec(spec)[0].read(data)
            return value[protobuf_nosr.BARE] if protobuf_nosr.is_bare(spec) else value
        case _:
            if spec.format.property(messages.SCHEMA) is not None:
                return messages.inline_codec(spec).read(messages.message_body(spec, data))
            codec, body = framed.codec_finder(spec)(data)
            return codec.read(body)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"expected a string, got {value!r}")


def _write_kafka(sql_type: SqlType, value: Any) -> bytes:
    write = kafka.PRIMITIVES[sql_type][1]
    if sql_type == STRING:
        return write(_text(value))
    if sql_type == BYTES:
        return _text(value).encode()
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise TypeError(f"expected a number, got {value!r}")
    if sql_type == DOUBLE:
        return write(float(value))
    return write(wrap_integer(int(value), 64) if sql_type == BIGINT else value)


def _read_kafka(sql_type: SqlType, data: bytes) -> Any:
    value = kafka.PRIMITIVES[sql_type][0](data)
    if sql_type == DOUBLE:
        return Decimal(java_double(value))
    return decode_utf8(value) if sql_type == BYTES else value


def _write_framed(spec: SerdeSpec, value: Any) -> bytes:
    if spec.format.property(messages.SCHEMA) is not None:
        own = messages.inline_codec(spec)
        return messages.frame_body(spec, own.write(to_connect(own.schema, value)))
    language = language_for(spec.format)
    latest = spec.schemas.latest_of(spec.subject)
    schema = framed.sink_schema(spec) if latest is None or latest.format is not language.format else latest
    imports = spec.schemas.imports_of(schema)
    name = language.find_definition(schema.text, imports, spec.format.property("fullSchemaName"))
    codec = language.open_codec(schema.text, imports, name)
    body = codec.write(to_connect(codec.schema, value))
    return framed.frame(schema.id, language.write_selector(schema.text, imports, name) + body)


def to_connect(schema: ConnectSchema, value: Any) -> Any:
    """Convert a JSON value to a value of `schema`; field names ignore case, scalars convert through their text.

    Raises:
        ValueError, TypeError: the value does not fit the schema.
    """
    if value is None:
        return None if schema.default is Missing.MISSING else schema.default
    match schema.kind:
        case Kind.ARRAY:
            return [to_connect(schema.only_item, item) for item in value]
        case Kind.MAP:
            return _map(schema, value)
        case Kind.STRUCT:
            members = {key.upper(): member for key, member in value.items()}
            return {field.name: to_connect(field.schema, members.get(field.name.upper())) for field in schema.fields}
        case Kind.DECIMAL:
            return _decimal(schema, value)
        case Kind.BYTES:
            return base64.b64decode(_text(value), validate=True)
        case kind:
            return _scalar(kind, value)


def _map(schema: ConnectSchema, value: Any) -> dict[Any, Any]:
    key = schema.key
    return {
        member if key is None else _scalar(key.kind, member): to_connect(schema.only_item, item)
        for member, item in value.items()
    }


def _decimal(schema: ConnectSchema, value: Any) -> Decimal:
    if isinstance(value, str):
        value = Decimal(value)
    if not isinstance(value, Decimal):
        raise TypeError(f"expected a number with a fraction for a DECIMAL, got {value!r}")
    return fit_decimal(value, schema.precision, schema.scale)


def _scalar(kind: Kind, value: Any) -> Any:
    text = value if isinstance(value, str) else json_text.write_compact(value)
    match kind:
        case Kind.STRING:
            return text
        case Kind.BOOLEAN:
            return text.lower() == "true"
        case Kind.FLOAT32 | Kind.FLOAT64:
            return parse_double(text)
        case Kind.INT64 | Kind.TIMESTAMP:
            return parse_long(text)
        case _:
            return parse_int(text)
