"""The schema languages: how each opens a schema, frames a message and writes the schema of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kestrel_sql.formats.avro import codec as avro
from kestrel_sql.formats.avro import schema as avro_schema
from kestrel_sql.formats.connect.codec import OpenWire, Wire
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind
from kestrel_sql.formats.json import registered as json_sr
from kestrel_sql.formats.json import schema as json_sr_schema
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
class Language:
    """One schema language.

    `definition` gives the name that a format's `fullSchemaName` selects in a schema, None for the first definition. `open_wire` opens
    the one of that name, `open_at` the one that a frame names; `locate` splits that off a body and `header` writes it.
    `own_text` writes the schema of columns. `wire_columns` gives columns their names in the schema.
    """

    format: SchemaFormat
    definition: Callable[[str, Mapping[str, str], str | None], str | None]
    open_wire: OpenWire
    open_at: Callable[[str, Mapping[str, str], Selector], Wire]
    locate: Callable[[bytes], tuple[Selector, bytes]]
    header: Callable[[str, Mapping[str, str], str | None], bytes]
    own_text: Callable[[tuple[Column, ...], bool, FormatInfo], str]
    wire_columns: Callable[[tuple[Column, ...]], tuple[Column, ...]]
    is_unwrapped: Callable[[ConnectSchema, bool], bool]


def _same_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return columns


def _avro_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(replace(column, name=column.name.replace(".", "_")) for column in columns)


def _locate_nothing(body: bytes) -> tuple[Selector, bytes]:
    return (), body


def _no_header(text: str, imports: Mapping[str, str], name: str | None) -> bytes:
    return b""


def _no_definition(text: str, imports: Mapping[str, str], name: str | None) -> str | None:
    return None


def _proto_definition(text: str, imports: Mapping[str, str], name: str | None) -> str | None:
    return name if name in proto_schema.load(text, imports).names else None


def _as_asked(schema: ConnectSchema, asked: bool) -> bool:
    return asked


def _proto_unwrapped(schema: ConnectSchema, asked: bool) -> bool:
    return schema.kind is not Kind.STRUCT


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint; gives the value and where it ends.

    Raises:
        ValueError: it does not end, or is longer than ten bytes.
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


def write_varint(rest: int) -> bytes:
    """Write a number from 0 as a varint."""
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _locate_message(body: bytes) -> tuple[Selector, bytes]:
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


def _message_header(text: str, imports: Mapping[str, str], name: str | None) -> bytes:
    index = proto_schema.load(text, imports).index_of(name)
    # A path of one index, both numbers in zigzag: doubled, as they are not negative.
    return b"\x00" if index == 0 else write_varint(2) + write_varint(2 * index)


def _avro_text(columns: tuple[Column, ...], unwrapped: bool, info: FormatInfo) -> str:
    return avro_schema.schema_text(columns, unwrapped, info.property("fullSchemaName"))


def _json_text(columns: tuple[Column, ...], unwrapped: bool, info: FormatInfo) -> str:
    return json_sr_schema.schema_text(columns, unwrapped)


def _proto_text(columns: tuple[Column, ...], unwrapped: bool, info: FormatInfo) -> str:
    return proto_text.schema_text(columns, info.property("fullSchemaName"), info.property("nullableRepresentation"))


def _avro_at(text: str, imports: Mapping[str, str], selector: Selector) -> Wire:
    return avro.open_wire(text, imports, None)


def _json_at(text: str, imports: Mapping[str, str], selector: Selector) -> Wire:
    return json_sr.open_wire(text, imports, None)


LANGUAGES: Mapping[str, Language] = {
    "AVRO": Language(
        SchemaFormat.AVRO,
        _no_definition,
        avro.open_wire,
        _avro_at,
        _locate_nothing,
        _no_header,
        _avro_text,
        _avro_columns,
        _as_asked,
    ),
    "JSON_SR": Language(
        SchemaFormat.JSON,
        _no_definition,
        json_sr.open_wire,
        _json_at,
        _locate_nothing,
        _no_header,
        _json_text,
        _same_columns,
        _as_asked,
    ),
    "PROTOBUF": Language(
        SchemaFormat.PROTOBUF,
        _proto_definition,
        protobuf.open_wire,
        protobuf.open_at,
        _locate_message,
        _message_header,
        _proto_text,
        _same_columns,
        _proto_unwrapped,
    ),
}
