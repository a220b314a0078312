"""How test cases write the records of formats (rules Q6)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from kestrel_sql.formats.connect.schema import ConnectSchema, Kind, Missing
from kestrel_sql.formats.json import text as json_text
from kestrel_sql.formats.registered import framing as framed
from kestrel_sql.formats.registered.languages import language_for
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.java.numbers import fit_decimal, parse_double, parse_int, parse_long
from kestrel_sql.java.utf16 import decode_utf8


class Spelling(msgspec.Struct, frozen=True):
    """How cases write the records of a format: from the JSON value of a key or value to bytes, and back.

    Numbers are int or `decimal.Decimal`. What is read is compared: fractions are exact decimals in formats that write
    text, and bytes stay bytes.
    """

    write: Callable[[SerdeSpec, Any], bytes | None]
    read: Callable[[SerdeSpec, bytes], Any]


def as_text(value: object) -> str:
    """Return a JSON value that has to be a string.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, str):
        return value
    raise TypeError(f"expected a string, got {value!r}")


JSON_TEXT = Spelling(
    lambda spec, value: json_text.write_compact(value).encode(), lambda spec, data: json_text.read_exact(data)
)
"""The record is the JSON value itself."""

TEXT = Spelling(lambda spec, value: as_text(value).encode(), lambda spec, data: decode_utf8(data))
"""The record is a text, which the case has as a string."""


def _write_framed(spec: SerdeSpec, value: object) -> bytes:
    language = language_for(spec.format)
    latest = spec.schemas.latest_of(spec.subject)
    schema = framed.sink_schema(spec) if latest is None or latest.format is not language.format else latest
    imports = spec.schemas.imports_of(schema)
    name = language.find_definition(schema.text, imports, spec.format.property("fullSchemaName"))
    codec = language.open_codec(schema.text, imports, name)
    body = codec.write(to_connect(codec.schema, value))
    return framed.frame(schema.id, language.write_selector(schema.text, imports, name) + body)


def _read_framed(spec: SerdeSpec, data: bytes) -> object:
    codec, body = framed.codec_finder(spec)(data)
    return codec.read(body)


FRAMED = Spelling(_write_framed, _read_framed)
"""The record has a schema: the latest of its subject, else the one that a sink would write with."""


def to_connect(schema: ConnectSchema, value: Any) -> object:
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
            return base64.b64decode(as_text(value), validate=True)
        case kind:
            return _scalar(kind, value)


def _map(schema: ConnectSchema, value: Mapping[str, object]) -> dict[object, object]:
    key = schema.key
    return {
        member if key is None else _scalar(key.kind, member): to_connect(schema.only_item, item)
        for member, item in value.items()
    }


def _decimal(schema: ConnectSchema, value: object) -> Decimal:
    if isinstance(value, str):
        value = Decimal(value)
    if not isinstance(value, Decimal):
        raise TypeError(f"expected a number with a fraction for a DECIMAL, got {value!r}")
    return fit_decimal(value, schema.precision, schema.scale)


def _scalar(kind: Kind, value: object) -> str | float:
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
