"""AVRO in bulk: records with plain fields, nullable or not, all written with one schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from kestrel_sql.formats.avro import schema as avro_schema
from kestrel_sql.formats.avro.unions import AvroSchema
from kestrel_sql.formats.bulk import varints as n
from kestrel_sql.formats.bulk.codec import Numbers, require, text_of, valid_of, values_of
from kestrel_sql.formats.bulk.writer_schemas import Reader, as_columns, find_fields, framed_decoder
from kestrel_sql.formats.connect.schema import ConnectSchema, Missing
from kestrel_sql.formats.registered.framing import frame, sink_schema
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import RegisteredSchema
from kestrel_sql.formats.serde import BulkDecoder, BulkEncoder, SerdeSpec
from kestrel_sql.java.numbers import INT_MAX, INT_MIN
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, BYTES, DATE, DOUBLE, INTEGER, STRING, TIME, TIMESTAMP, SqlType

_NULL = "null"
_SCALARS = ("boolean", "int", "long", "float", "double", "string", "bytes")


class _Field(msgspec.Struct, frozen=True):
    """A field of a plain type; `branch` is the byte before a value in a nullable field, None if it is not nullable."""

    name: str
    kind: str
    branch: int | None
    schema: ConnectSchema


def _fields(text: str, imports: dict[str, str], unwrapped: bool) -> list[_Field] | None:
    """Return the fields of a schema, or the one value of an unwrapped schema; None if one of them is not plain."""
    resolved = avro_schema.parse_text(text, imports)
    connect = avro_schema.to_connect(resolved)
    if unwrapped:
        only = _field("", resolved, connect)
        return None if only is None else [only]
    if not isinstance(resolved, dict) or resolved["type"] != "record":
        return None
    pairs = zip(resolved["fields"], connect.fields, strict=True)
    fields = [_field(field["name"], field["type"], member.schema) for field, member in pairs]
    return None if None in fields else [field for field in fields if field is not None]


def _field(name: str, kind: AvroSchema, schema: ConnectSchema) -> _Field | None:
    branch = None
    if isinstance(kind, list):
        if len(kind) != 2 or _NULL not in kind:
            return None
        branch = 2 * (1 - kind.index(_NULL))
        kind = kind[1 - kind.index(_NULL)]
    plain = kind if isinstance(kind, str) else kind["type"]
    if plain not in _SCALARS or (not isinstance(kind, str) and kind.get("logicalType") == "decimal"):
        return None
    return _Field(name, plain, branch, schema)


def decoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkDecoder | None:
    """Return a decoder of framed records with plain fields that were written with one schema."""
    return framed_decoder(spec, "AVRO", lambda schema, _: _reader(spec, schema, types))


def _reader(spec: SerdeSpec, schema: RegisteredSchema, types: Sequence[pa.DataType]) -> Reader | None:
    fields = _fields(schema.text, spec.schemas.imports_of(schema), spec.unwrapped)
    columns = spec.columns if spec.unwrapped else LANGUAGES["AVRO"].schema_columns(spec.columns)
    if spec.unwrapped and fields is not None:
        fields = [replace(fields[0], name=columns[0].name)]
    positions = None if fields is None else find_fields(columns, fields)
    if fields is None or positions is None:
        return None

    def read(data: pa.BinaryArray, header: bytes) -> list[pa.Array]:
        cursor = n.open_records(data)
        n.skip_header(cursor, header)
        return as_columns(len(data), types, [_nullable(cursor, field) for field in fields], positions, _cast_array)

    return read


def _cast_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return text_of(array) if kind == pa.string() else pc.cast(array, kind)


def _nullable(cursor: n.Cursor, field: _Field) -> pa.Array:
    read = _READERS[field.kind]
    if field.branch is None:
        return read(cursor)
    branches = n.read_bytes(cursor)
    require((branches <= 2).all() and not (branches == 1).any())
    valid = branches == field.branch
    if valid.all():
        return read(cursor)
    return n.read_some(cursor, valid, read)


def _read_boolean(cursor: n.Cursor) -> pa.Array:
    values = n.read_bytes(cursor)
    require((values <= 1).all())
    return pa.array(values.astype(bool))


def _read_int(cursor: n.Cursor) -> pa.Array:
    values = n.unzigzag(n.read_varints(cursor))
    require(((values >= INT_MIN) & (values <= INT_MAX)).all())
    return pa.array(values)


def _read_content(cursor: n.Cursor) -> pa.Array:
    return n.read_content(cursor, n.unzigzag(n.read_varints(cursor)))


_READERS: dict[str, Callable[[n.Cursor], pa.Array]] = {
    "boolean": _read_boolean,
    "int": _read_int,
    "long": lambda cursor: pa.array(n.unzigzag(n.read_varints(cursor))),
    "float": lambda cursor: pa.array(n.read_fixed(cursor, "<f4").astype(np.float64)),
    "double": lambda cursor: pa.array(n.read_fixed(cursor, "<f8")),
    "string": _read_content,
    "bytes": _read_content,
}

_WRITABLE: dict[SqlType, frozenset[str]] = {
    BOOLEAN: frozenset({"boolean"}),
    INTEGER: frozenset({"int", "long"}),
    BIGINT: frozenset({"long"}),
    DOUBLE: frozenset({"double"}),
    STRING: frozenset({"string"}),
    BYTES: frozenset({"bytes"}),
    DATE: frozenset({"int"}),
    TIME: frozenset({"int"}),
    TIMESTAMP: frozenset({"long"}),
}


def encoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkEncoder | None:
    """Return an encoder of plain columns for a schema with the same fields."""
    if spec.unwrapped or any(column.type not in _WRITABLE for column in spec.columns):
        return None
    schema = sink_schema(spec)
    fields = _fields(schema.text, spec.schemas.imports_of(schema), unwrapped=False)
    columns = LANGUAGES["AVRO"].schema_columns(spec.columns)
    if fields is None or [field.name for field in fields] != [column.name for column in columns]:
        return None
    if not all(_can_write(field, column.type) for field, column in zip(fields, columns, strict=True)):
        return None
    header = pa.scalar(frame(schema.id, b""), type=pa.binary())

    def encode(arrays: Sequence[pa.Array]) -> pa.BinaryArray:
        pieces = [piece for field, array in zip(fields, arrays, strict=True) for piece in _pieces(field, array)]
        return pc.binary_join_element_wise(header, *pieces, pa.scalar(b"", type=pa.binary()))

    return encode


def _can_write(field: _Field, sql_type: SqlType) -> bool:
    return (
        field.branch is not None
        and field.kind in _WRITABLE[sql_type]
        and field.schema.default in (None, Missing.MISSING)
    )


def _pieces(field: _Field, array: pa.Array) -> list[pa.Array]:
    present = valid_of(array)
    wanted: Numbers = np.ones(len(array), dtype=bool) if present is None else present
    branch = 2 if field.branch is None else field.branch
    prefix = np.where(wanted, branch, 2 - branch).astype(np.uint8).reshape(-1, 1)
    if field.kind in ("string", "bytes"):
        lengths = n.zigzag(n.content_lengths(array))
        content = pc.cast(array, pa.binary())
        return [n.varint_pieces(lengths, prefix, wanted, 1), content.fill_null(b"") if array.null_count else content]
    if field.kind == "double":
        return [n.fixed_pieces(values_of(array), "<f8", prefix, wanted, 1)]
    if field.kind == "boolean":
        return [n.fixed_pieces(values_of(array), "u1", prefix, wanted, 1)]
    return [n.varint_pieces(n.zigzag(values_of(array).astype(np.int64)), prefix, wanted, 1)]
