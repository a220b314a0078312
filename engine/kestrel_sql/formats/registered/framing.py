"""AVRO, JSON_SR and PROTOBUF: a zero byte, a schema id, and a body in the encoding of that schema (rules F4, F8)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kestrel_sql.formats.connect import read as connect_read
from kestrel_sql.formats.connect import write as connect_write
from kestrel_sql.formats.connect.codec import SchemaCodec
from kestrel_sql.formats.registered.columns import generated_schema
from kestrel_sql.formats.registered.languages import SchemaLanguage, language_for
from kestrel_sql.formats.registry.memory import RegisteredSchema
from kestrel_sql.formats.serde import Decoder, Encoder, Row, SerdeSpec, guard_decoder, guard_encoder

_HEADER = struct.Struct(">BI")

GENERATED_ID = 0
"""The id of a generated schema that no registry holds, as on internal topics; registries count from 1."""


def split_frame(data: bytes) -> tuple[int, bytes]:
    """Split a message into schema id and body.

    Raises:
        ValueError: the message is too short or has another magic byte.
    """
    if len(data) < _HEADER.size or data[0] != 0:
        raise ValueError("Unknown magic byte!")
    return _HEADER.unpack_from(data)[1], data[_HEADER.size :]


def frame(schema_id: int, body: bytes) -> bytes:
    """Prepend magic byte and schema id to a body."""
    return _HEADER.pack(0, schema_id) + body


def sink_schema(spec: SerdeSpec) -> RegisteredSchema:
    """Return the schema that a sink writes with: that of `schemaId`, else the generated one, with its registered id."""
    schema_id = spec.format.property("schemaId")
    if schema_id is not None and int(schema_id) in spec.schemas.by_id:
        return spec.schemas.by_id[int(schema_id)]
    own = generated_schema(spec)
    return spec.schemas.find(own.format, own.text) or own


def resolve(spec: SerdeSpec, schema_id: int) -> RegisteredSchema:
    """Return the schema for an id in a frame.

    Raises:
        ValueError: the registry has no such schema.
    """
    if schema_id == GENERATED_ID:
        return generated_schema(spec)
    schema = spec.schemas.by_id.get(schema_id)
    if schema is None:
        raise ValueError(f"Error retrieving schema for id {schema_id}")
    return schema


def codec_finder(spec: SerdeSpec) -> Callable[[bytes], tuple[SchemaCodec, bytes]]:
    """Return a function from a message to the codec of its writer's schema and its body; codecs are created once."""
    language: SchemaLanguage = language_for(spec.format)
    opened: dict[tuple[int, tuple[int, ...]], SchemaCodec] = {}

    def find(data: bytes) -> tuple[SchemaCodec, bytes]:
        schema_id, rest = split_frame(data)
        selector, body = language.read_selector(rest)
        codec = opened.get((schema_id, selector))
        if codec is None:
            schema = resolve(spec, schema_id)
            codec = language.open_at(schema.text, spec.schemas.imports_of(schema), selector)
            opened[schema_id, selector] = codec
        return codec, body

    return find


def decoder(spec: SerdeSpec) -> Decoder:
    """Return a decoder that reads each message with the schema of its writer."""
    find = codec_finder(spec)
    language = language_for(spec.format)
    columns = language.schema_columns(spec.columns)
    readers: dict[int, Callable[[Any], Row]] = {}

    def decode(data: bytes) -> Row:
        codec, body = find(data)
        reader = readers.get(id(codec))
        if reader is None:
            unwrapped = language.is_unwrapped(codec.schema, spec.unwrapped)
            reader = readers[id(codec)] = connect_read.row_reader(codec.schema, columns, unwrapped)
        return reader(codec.read(body))

    return guard_decoder(spec, f"Error deserializing message from topic: {spec.topic}", decode)


def encoder(spec: SerdeSpec) -> Encoder:
    """Return an encoder for the generated schema or that of `schemaId`; an unwrapped NULL becomes null bytes.

    Raises:
        FormatError: the format does not support the columns.
    """
    language = language_for(spec.format)
    schema = sink_schema(spec)
    imports = spec.schemas.imports_of(schema)
    name = language.find_definition(schema.text, imports, spec.format.property("fullSchemaName"))
    codec = language.open_codec(schema.text, imports, name)
    unwrapped = language.is_unwrapped(codec.schema, spec.unwrapped)
    to_connect = connect_write.row_writer(language.schema_columns(spec.columns), codec.schema, unwrapped)
    header = _HEADER.pack(0, schema.id) + language.write_selector(schema.text, imports, name)

    def encode(row: Row) -> bytes | None:
        if unwrapped and row[0] is None:
            return None
        return header + codec.write(to_connect(row))

    return guard_encoder(spec, encode)
