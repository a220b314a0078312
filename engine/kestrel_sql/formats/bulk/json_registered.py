"""JSON_SR in bulk: objects with plain, nullable members, all written with one schema."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.formats.bulk import varints as n
from kestrel_sql.formats.bulk.json_read import ObjectReader
from kestrel_sql.formats.bulk.json_write import row_encoder
from kestrel_sql.formats.bulk.writer_schemas import Reader, as_columns, find_fields, framed_decoder
from kestrel_sql.formats.connect.schema import ConnectField, Kind, Missing
from kestrel_sql.formats.json import schema as json_sr_schema
from kestrel_sql.formats.registered.framing import frame, sink_schema
from kestrel_sql.formats.registry.memory import RegisteredSchema
from kestrel_sql.formats.serde import BulkDecoder, BulkEncoder, SerdeSpec
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, STRING, TIME, TIMESTAMP, SqlType

_KINDS: dict[Kind, SqlType] = {
    Kind.BOOLEAN: BOOLEAN,
    Kind.INT32: INTEGER,
    Kind.INT64: BIGINT,
    Kind.FLOAT64: DOUBLE,
    Kind.STRING: STRING,
    Kind.DATE: DATE,
    Kind.TIME: TIME,
    Kind.TIMESTAMP: TIMESTAMP,
}
"""The type by which a member is read."""


def decoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkDecoder | None:
    """Return a decoder of framed objects that were written with one schema."""
    if spec.unwrapped:
        return None
    return framed_decoder(spec, "JSON_SR", lambda schema, _: _reader(spec, schema, types))


def _fields(spec: SerdeSpec, schema: RegisteredSchema) -> Sequence[ConnectField] | None:
    connect = json_sr_schema.parse_text(schema.text, spec.schemas.imports_of(schema))
    plain = all(
        field.schema.kind in _KINDS and field.schema.optional and field.schema.default is Missing.MISSING
        for field in connect.fields
    )
    return connect.fields if connect.kind is Kind.STRUCT and connect.fields and plain else None


def _reader(spec: SerdeSpec, schema: RegisteredSchema, types: Sequence[pa.DataType]) -> Reader | None:
    fields = _fields(spec, schema)
    positions = None if fields is None else find_fields(spec.columns, fields)
    if fields is None or positions is None:
        return None
    kinds = [_KINDS[field.schema.kind] for field in fields]
    columns = [Column(field.name, kind) for field, kind in zip(fields, kinds, strict=True)]
    objects = ObjectReader(columns, [to_arrow(kind) for kind in kinds], exact=True)

    def read(data: pa.BinaryArray, header: bytes) -> list[pa.Array]:
        cursor = n.open_records(data)
        n.skip_header(cursor, header)
        members = objects.decode(n.read_content(cursor, cursor.end - cursor.at))
        return as_columns(len(data), types, members, positions, pc.cast)

    return read


def encoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkEncoder | None:
    """Return an encoder of plain columns for a schema with the same members."""
    if spec.unwrapped:
        return None
    schema = sink_schema(spec)
    fields = _fields(spec, schema)
    if fields is None or [field.name for field in fields] != [column.name for column in spec.columns]:
        return None
    if any(
        _WRITABLE.get(column.type) is not field.schema.kind for column, field in zip(spec.columns, fields, strict=True)
    ):
        return None
    return row_encoder(spec.columns, frame(schema.id, b""))


_WRITABLE = {sql_type: kind for kind, sql_type in _KINDS.items()}
