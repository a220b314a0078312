"""PROTOBUF_NOSR: bare protobuf bodies of the message generated from the columns."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.formats import none
from kestrel_sql.formats.connect import read as connect_read
from kestrel_sql.formats.connect import write as connect_write
from kestrel_sql.formats.connect.codec import Wire
from kestrel_sql.formats.connect.schema import ConnectSchema
from kestrel_sql.formats.protobuf import codec as protobuf
from kestrel_sql.formats.protobuf import generate as proto_text
from kestrel_sql.formats.serde import Decoder, Encoder, Row, SerdeSpec, guard_decoder, guard_encoder
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Struct

BARE = "value"
"""The field that holds an unwrapped value that is not a STRUCT, as in protobuf's own wrapper messages."""


def is_bare(spec: SerdeSpec) -> bool:
    """Whether the message is only the wrapper of an unwrapped value."""
    return spec.unwrapped and not isinstance(spec.columns[0].type, Struct)


def open_spec(spec: SerdeSpec) -> tuple[Wire, ConnectSchema]:
    """Open the generated message; also gives the schema of the value that it stands for.

    Raises:
        FormatError: columns that protobuf cannot hold.
    """
    columns = spec.columns
    only = columns[0].type
    if is_bare(spec):
        columns = (replace(columns[0], name=BARE),)
    elif spec.unwrapped and isinstance(only, Struct):
        columns = tuple(Column(field.name, field.type, columns[0].role) for field in only.fields)
    text = proto_text.schema_text(
        columns, spec.format.property("fullSchemaName"), spec.format.property("nullableRepresentation")
    )
    wire = protobuf.open_wire(text, {}, spec.format.property("fullSchemaName"))
    return wire, wire.schema.fields[0].schema if is_bare(spec) else wire.schema


def decoder(spec: SerdeSpec) -> Decoder:
    """Read bare messages.

    Raises:
        FormatError: columns that protobuf cannot hold.
    """
    if not spec.columns:
        return none.decoder(spec)
    wire, schema = open_spec(spec)
    bare = is_bare(spec)
    to_row = connect_read.row_reader(schema, spec.columns, spec.unwrapped)

    def decode(data: bytes) -> Row:
        value = wire.read(data)
        return to_row(value[BARE] if bare else value)

    return guard_decoder(spec, f"Error deserializing message from topic: {spec.topic}", decode)


def encoder(spec: SerdeSpec) -> Encoder:
    """Write bare messages; an unwrapped null gives null bytes.

    Raises:
        FormatError: columns that protobuf cannot hold.
    """
    if not spec.columns:
        return none.encoder(spec)
    wire, schema = open_spec(spec)
    bare, unwrapped = is_bare(spec), spec.unwrapped
    to_connect = connect_write.row_writer(spec.columns, schema, unwrapped)

    def encode(row: Row) -> bytes | None:
        if unwrapped and row[0] is None:
            return None
        value = to_connect(row)
        return wire.write({BARE: value} if bare else value)

    return guard_encoder(spec, encode)
