"""AVRO, JSON_SR and PROTOBUF: a zero byte, the schema's id, then a body that the writer's schema explains (rules F4, F8)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kestrel_sql.formats import none
from kestrel_sql.formats.connect import read as connect_read
from kestrel_sql.formats.connect import write as connect_write
from kestrel_sql.formats.connect.codec import Wire
from kestrel_sql.formats.registered.columns import own_schema
from kestrel_sql.formats.registered.languages import LANGUAGES, Language
from kestrel_sql.formats.registry.memory import RegisteredSchema
from kestrel_sql.formats.serde import Decoder, Encoder, Row, SerdeSpec, guard_decoder, guard_encoder

_HEADER = struct.Struct(">BI")

OWN_ID = 0
"""The id of a schema that no registry holds: the one generated from the columns, as on internal topics. Registries count from 1."""


def split_frame(data: bytes) -> tuple[int, bytes]:
    """Take magic byte and schema id off.

    Raises:
        ValueError: too short, or another magic byte.
    """
    if len(data) < _HEADER.size or data[0] != 0:
        raise ValueError("Unknown magic byte!")
    return _HEADER.unpack_from(data)[1], data[_HEADER.size :]


def frame(schema_id: int, body: bytes) -> bytes:
    """Put magic byte and schema id before a body."""
    return _HEADER.pack(0, schema_id) + body


def written_schema(spec: SerdeSpec) -> RegisteredSchema:
    """The schema that a sink writes with: the one of its `schemaId`, else its own, under the id the registry gave it."""
    given = spec.format.property("schemaId")
    if given is not None and int(given) in spec.schemas.by_id:
        return spec.schemas.by_id[int(given)]
    own = own_schema(spec)
    return spec.schemas.find(own.format, own.text) or own


def resolve(spec: SerdeSpec, schema_id: int) -> RegisteredSchema:
    """The schema of an id found in a frame.

    Raises:
        ValueError: the registry does not have it.
    """
    if schema_id == OWN_ID:
        return own_schema(spec)
    schema = spec.schemas.by_id.get(schema_id)
    if schema is None:
        raise ValueError(f"Error retrieving schema for id {schema_id}")
    return schema


def wires(spec: SerdeSpec) -> Callable[[bytes], tuple[Wire, bytes]]:
    """Make the function that finds the writer's schema of a framed message and cuts out the body; schemas are opened once."""
    language: Language = LANGUAGES[spec.format.format]
    opened: dict[tuple[int, tuple[int, ...]], Wire] = {}

    def find(data: bytes) -> tuple[Wire, bytes]:
        schema_id, rest = split_frame(data)
        selector, body = language.locate(rest)
        wire = opened.get((schema_id, selector))
        if wire is None:
            schema = resolve(spec, schema_id)
            wire = language.open_at(schema.text, spec.schemas.imports_of(schema), selector)
            opened[schema_id, selector] = wire
        return wire, body

    return find


def decoder(spec: SerdeSpec) -> Decoder:
    """Read framed messages with the schema they were written with."""
    if not spec.columns:
        return none.decoder(spec)
    find = wires(spec)
    language = LANGUAGES[spec.format.format]
    columns = language.wire_columns(spec.columns)
    readers: dict[int, Callable[[Any], Row]] = {}

    def decode(data: bytes) -> Row:
        wire, body = find(data)
        reader = readers.get(id(wire))
        if reader is None:
            unwrapped = language.is_unwrapped(wire.schema, spec.unwrapped)
            reader = readers[id(wire)] = connect_read.row_reader(wire.schema, columns, unwrapped)
        return reader(wire.read(body))

    return guard_decoder(spec, f"Error deserializing message from topic: {spec.topic}", decode)


def encoder(spec: SerdeSpec) -> Encoder:
    """Write framed messages with the spec's own schema, or that of its `schemaId`; an unwrapped null gives null bytes.

    Raises:
        FormatError: columns that the format cannot hold.
    """
    if not spec.columns:
        return none.encoder(spec)
    language = LANGUAGES[spec.format.format]
    schema = written_schema(spec)
    imports = spec.schemas.imports_of(schema)
    name = language.definition(schema.text, imports, spec.format.property("fullSchemaName"))
    wire = language.open_wire(schema.text, imports, name)
    unwrapped = language.is_unwrapped(wire.schema, spec.unwrapped)
    to_connect = connect_write.row_writer(language.wire_columns(spec.columns), wire.schema, unwrapped)
    header = _HEADER.pack(0, schema.id) + language.header(schema.text, imports, name)

    def encode(row: Row) -> bytes | None:
        if unwrapped and row[0] is None:
            return None
        return header + wire.write(to_connect(row))

    return guard_encoder(spec, encode)
