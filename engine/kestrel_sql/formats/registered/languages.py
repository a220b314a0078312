"""The schema languages: how each opens schemas, frames messages, and generates schemas from columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from kestrel_sql.formats.avro import codec as avro
from kestrel_sql.formats.avro import schema as avro_schema
from kestrel_sql.formats.connect.codec import OpenCodec, SchemaCodec
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind
from kestrel_sql.formats.json import registered as json_sr
from kestrel_sql.formats.json import schema as json_sr_schema
from kestrel_sql.formats.properties import FULL_NAME, NULLABLE, UNWRAP_PRIMITIVES
from kestrel_sql.formats.protobuf import codec as protobuf
from kestrel_sql.formats.protobuf import generate as proto_text
from kestrel_sql.formats.protobuf import schema as proto_schema
from kestrel_sql.formats.registry.memory import SchemaFormat
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.types.schema import Column

Selector = tuple[int, ...]
"""The message indexes of a PROTOBUF frame; empty for the other languages."""

_MAX_INDEXES = 64


class SchemaLanguage(msgspec.Struct, frozen=True, kw_only=True):
    """One schema language.

    * `find_definition` returns the name of the definition that `fullSchemaName` selects, None for the first one;
      `open_codec` returns the codec of that definition.
    * `read_selector` splits a message body into the selector of its definition and the rest, and `open_at` returns the
      codec for a selector. `write_selector` returns the bytes of the selector.
    * `generate_schema` writes the schema of columns; `schema_columns` names columns as the schema does.
    * `is_unwrapped` tells whether a message is a bare value, from the schema and the configuration.
    """

    format: SchemaFormat
    open_codec: OpenCodec
    open_at: Callable[[str, Mapping[str, str], Selector], SchemaCodec]
    generate_schema: Callable[[tuple[Column, ...], bool, FormatInfo], str]
    find_definition: Callable[[str, Mapping[str, str], str | None], str | None] = lambda text, imports, name: None
    read_selector: Callable[[bytes], tuple[Selector, bytes]] = lambda body: ((), body)
    write_selector: Callable[[str, Mapping[str, str], str | None], bytes] = lambda text, imports, name: b""
    schema_columns: Callable[[tuple[Column, ...]], tuple[Column, ...]] = lambda columns: columns
    is_unwrapped: Callable[[ConnectSchema, bool], bool] = lambda schema, configured: configured


def _avro_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(replace(column, name=column.name.replace(".", "_")) for column in columns)


def _proto_definition(text: str, imports: Mapping[str, str], name: str | None) -> str | None:
    return name if name in proto_schema.load(text, imports).names else None


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


LANGUAGES: Mapping[str, SchemaLanguage] = {
    "AVRO": SchemaLanguage(
        format=SchemaFormat.AVRO,
        open_codec=avro.open_codec,
        open_at=lambda text, imports, _: avro.open_codec(text, imports, None),
        generate_schema=lambda columns, unwrapped, info: avro_schema.schema_text(
            columns, unwrapped, info.property(FULL_NAME)
        ),
        schema_columns=_avro_columns,
    ),
    "JSON_SR": SchemaLanguage(
        format=SchemaFormat.JSON,
        open_codec=json_sr.open_codec,
        open_at=lambda text, imports, _: json_sr.open_codec(text, imports, None),
        generate_schema=lambda columns, unwrapped, _: json_sr_schema.schema_text(columns, unwrapped),
    ),
    "PROTOBUF": SchemaLanguage(
        format=SchemaFormat.PROTOBUF,
        open_codec=protobuf.open_codec,
        open_at=protobuf.open_at,
        generate_schema=lambda columns, _, info: proto_text.schema_text(
            columns, info.property(FULL_NAME), info.property(NULLABLE)
        ),
        find_definition=_proto_definition,
        read_selector=_read_indexes,
        write_selector=_write_indexes,
        is_unwrapped=lambda schema, _: schema.kind is not Kind.STRUCT,
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
