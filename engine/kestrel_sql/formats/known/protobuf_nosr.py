"""PROTOBUF_NOSR: protobuf messages without a frame; the message type is generated from the columns."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.arrow.late import Late, later
from kestrel_sql.formats.connect import read as connect_read
from kestrel_sql.formats.connect import write as connect_write
from kestrel_sql.formats.connect.codec import SchemaCodec
from kestrel_sql.formats.connect.schema import ConnectSchema
from kestrel_sql.formats.format import BOTH, Format
from kestrel_sql.formats.known import protobuf
from kestrel_sql.formats.properties import NULLABLE, UNWRAP_PRIMITIVES
from kestrel_sql.formats.protobuf import codec as proto_codec
from kestrel_sql.formats.protobuf import generate as proto_text
from kestrel_sql.formats.serde import Decoder, Encoder, Row, SerdeSpec, guard_decoder, guard_encoder
from kestrel_sql.formats.spelling import Spelling, to_connect
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Struct

BARE = "value"
"""The field for an unwrapped value that is not a STRUCT, named as in protobuf's wrapper messages."""


def is_bare(spec: SerdeSpec) -> bool:
    """Whether the message only wraps an unwrapped value."""
    return spec.unwrapped and not isinstance(spec.columns[0].type, Struct)


def open_spec(spec: SerdeSpec) -> tuple[SchemaCodec, ConnectSchema]:
    """Return the codec of the generated message, and the schema of the value it represents.

    Raises:
        FormatError: protobuf does not support the type of a column.
    """
    columns = spec.columns
    if is_bare(spec):
        columns = (replace(columns[0], name=BARE),)
    elif spec.unwrapped and isinstance(only := columns[0].type, Struct):
        columns = tuple(Column(field.name, field.type, columns[0].role) for field in only.fields)
    text = proto_text.schema_text(
        columns, spec.format.property("fullSchemaName"), spec.format.property("nullableRepresentation")
    )
    codec = proto_codec.open_codec(text, {}, spec.format.property("fullSchemaName"))
    return codec, codec.schema.fields[0].schema if is_bare(spec) else codec.schema


def decoder(spec: SerdeSpec) -> Decoder:
    """Return a decoder of messages without a frame.

    Raises:
        FormatError: protobuf does not support the type of a column.
    """
    codec, schema = open_spec(spec)
    bare = is_bare(spec)
    to_row = connect_read.row_reader(schema, spec.columns, spec.unwrapped)

    def decode(data: bytes) -> Row:
        value = codec.read(data)
        return to_row(value[BARE] if bare else value)

    return guard_decoder(spec, f"Error deserializing message from topic: {spec.topic}", decode)


def encoder(spec: SerdeSpec) -> Encoder:
    """Return an encoder of messages without a frame; an unwrapped NULL becomes null bytes.

    Raises:
        FormatError: protobuf does not support the type of a column.
    """
    codec, schema = open_spec(spec)
    bare, unwrapped = is_bare(spec), spec.unwrapped
    converted = connect_write.row_writer(spec.columns, schema, unwrapped)

    def encode(row: Row) -> bytes | None:
        if unwrapped and row[0] is None:
            return None
        value = converted(row)
        return codec.write({BARE: value} if bare else value)

    return guard_encoder(spec, encode)


def _write_case(spec: SerdeSpec, value: object) -> bytes:
    codec, schema = open_spec(spec)
    converted = to_connect(schema, value)
    return codec.write({BARE: converted} if is_bare(spec) else converted)


def _read_case(spec: SerdeSpec, data: bytes) -> object:
    value = open_spec(spec)[0].read(data)
    return value[BARE] if is_bare(spec) else value


_BULK = Late("kestrel_sql.formats.bulk.protobuf")

FORMAT = Format(
    name="PROTOBUF_NOSR",
    loses_null=True,
    null_key="",
    decoder=decoder,
    encoder=encoder,
    bulk_decoder=later(_BULK, "bare_decoder"),
    bulk_encoder=later(_BULK, "bare_encoder"),
    spelling=Spelling(_write_case, _read_case),
    features=BOTH,
    properties=frozenset({UNWRAP_PRIMITIVES, NULLABLE}),
    inheritable=frozenset({UNWRAP_PRIMITIVES, NULLABLE}),
    check=protobuf.FORMAT.check,
)
