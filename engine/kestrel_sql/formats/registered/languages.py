"""The schema languages: how each opens schemas, frames messages, and generates schemas from columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kestrel_sql.formats.avro import codec as avro
from kestrel_sql.formats.avro import schema as avro_schema
from kestrel_sql.formats.connect.codec import OpenCodec, SchemaCodec
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind
from kestrel_sql.formats.json import registered as json_sr
from kestrel_sql.formats.json import schema as json_sr_schema
from kestrel_sql.formats.properties import UNWRAP_PRIMITIVES
from kestrel_sql.formats.protobuf import codec as protobuf
from kestrel_sql.formats.protobuf import generate as proto_text
from kestrel_sql.formats.protobuf import schema as proto_schema
from kestrel_sql.formats.registry.memory import SchemaFormat
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.types.schema import Column

Selector = tuple[int, ...]
"""The message indexes of a PROTOBUF frame; empty for the other languages."""

_MAX_INDEXES = 64


@dataclass(frozen=True, slots=True)
class SchemaLanguage:
    """One schema language.

    * `find_definition` returns the name of the definition that `fullSchemaName` selects, None for the first one;
      `open_codec` returns the codec of that definition.
    * `read_selector` splits a message body into the selector of its definition and the rest, and `open_at` returns the
      codec for a selector. `write_selector` returns the bytes of the selector.
    * `generate_schema` writes the schema of columns; `schema_columns` names columns as the schema does.
    * `is_unwrapped` tells whether a message is a bare value, from the schema and the configuration.
    """

    format: SchemaFormat
    find_definition: Callable[[str, Mapping[str, str], str | None], str | None]
    open_codec: OpenCodec
    open_at: Callable[[str, Mapping[str, str], Selector], SchemaCodec]
    read_selector: Callable[[bytes], tuple[Selector, bytes]]
    write_selector: Callable[[str, Mapping[str, str], str | None], bytes]
    generate_schema: Callable[[tuple[Column, ...], bool, FormatInfo], str]
    schema_columns: Callable[[tuple[Column, ...]], tuple[Column, ...]]
    is_unwrapped: Callable[[ConnectSchema, bool], bool]


def _same_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return columns


def _avro_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(replace(column, name=column.name.replace(".", "_")) for column in columns)


def _no_selector(body: bytes) -> tuple[Selector, bytes]:
    return (), body


def _no_header(text: str, imports: Mapping[str, str], name: str | None) -> bytes:
    return b""


def _no_definition(text: str, imports: Mapping[str, str], name: str | None) -> str | None:
    return None


def _proto_definition(text: str, imports: Mapping[str, str], name: str | None) -> str | None:
    return name if name in proto_schema.load(text, imports).names else None


def _as_configured(schema: ConnectSchema, configured: bool) -> bool:
    return configured


def _proto_unwrapped(schema: ConnectSchema, configured: bool) -> bool:
    return schema.kind is not Kind.STRUCT


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint at `at`; return its value and the position after it.

    Raises:
        ValueError: the varint does not end, or is longer than ten bytes.
    """
    result = shift = 0
    while shift < 70 and at < len(data):
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7
    raise ValueError("Malformed message index")


def write_varint(number: int) -> bytes:
    """Write a non-negative integer as a varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_indexes(body: bytes) -> tuple[Selector, bytes]:
    count, at = read_varint(body, 0)
    if count == 0:
        return (0,), body[at:]
    if not 0 < count <= _MAX_INDEXES:
        raise ValueError("Malformed message index")
    indexes: list[int] = []
    for _ in range(count):
        index, at = read_varint(body, at)
        indexes.append(index)
    return tuple(indexes), body[at:]


def _write_indexes(text: str, imports: Mapping[str, str], name: str | None) -> bytes:
    index = proto_schema.load(text, imports).index_of(name)
    # A path of one index; zigzag doubles numbers that are not negative.
    return b"\x00" if index == 0 else write_varint(2) + write_varint(2 * index)


def _avro_text(columns: tuple[Column, ...], unwrapped: bool, info: FormatInfo) -> str:
    return avro_schema.schema_text(columns, unwrapped, info.property("fullSchemaName"))


def _json_text(columns: tuple[Column, ...], unwrapped: bool, info: FormatInfo) -> str:
    return json_sr_schema.schema_text(columns, unwrapped)


def _proto_text(columns: tuple[Column, ...], unwrapped: bool, info: FormatInfo) -> str:
    return proto_text.schema_text(columns, info.property("fullSchemaName"), info.property("nullableRepresentation"))


def _avro_at(text: str, imports: Mapping[str, str], selector: Selector) -> SchemaCodec:
    return avro.open_codec(text, imports, None)


def _json_at(text: str, imports: Mapping[str, str], selector: Selector) -> SchemaCodec:
    return json_sr.open_codec(text, imports, None)


LANGUAGES: Mapping[str, SchemaLanguage] = {
    "AVRO": SchemaLanguage(
        SchemaFormat.AVRO,
        _no_definition,
        avro.open_codec,
        _avro_at,
        _no_selector,
        _no_header,
        _avro_text,
        _avro_columns,
        _as_configured,
    ),
    "JSON_SR": SchemaLanguage(
        SchemaFormat.JSON,
        _no_definition,
        json_sr.open_codec,
        _json_at,
        _no_selector,
        _no_header,
        _json_text,
        _same_columns,
        _as_configured,
    ),
    "PROTOBUF": SchemaLanguage(
        SchemaFormat.PROTOBUF,
        _proto_definition,
        protobuf.open_codec,
        protobuf.open_at,
        _read_indexes,
        _write_indexes,
        _proto_text,
        _same_columns,
        _proto_unwrapped,
    ),
}

PROTOBUF_STRUCTS = replace(
    LANGUAGES["PROTOBUF"],
    open_codec=partial(protobuf.open_codec, unwrap=False),
    open_at=partial(protobuf.open_at, unwrap=False),
)
"""PROTOBUF without `unwrapPrimitives`."""


def language_for(info: FormatInfo) -> SchemaLanguage:
    """Return the language of a format; its properties say whether wrapper messages are primitives (rules F4.8.6)."""
    structs = info.format == "PROTOBUF" and info.property(UNWRAP_PRIMITIVES) != "true"
    return PROTOBUF_STRUCTS if structs else LANGUAGES[info.format]
