"""AVRO, whole batches at a time: records of plain fields, each of them nullable or not, in one schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.formats.avro import schema as avro_schema
from kestrel_sql.formats.bulk import varints as n
from kestrel_sql.formats.bulk.codec import BulkDecoder, BulkEncoder, Numbers, require, text_of, valid_of, values_of
from kestrel_sql.formats.bulk.writer_schemas import as_columns, find_fields, framed_decoder
from kestrel_sql.formats.connect.schema import ConnectSchema, Missing
from kestrel_sql.formats.registered.framing import frame, written_schema
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import RegisteredSchema
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.java.numbers import INT_MAX, INT_MIN
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, BYTES, DATE, DOUBLE, INTEGER, STRING, TIME, TIMESTAMP, SqlType

_NULL = "null"
_SCALARS = ("boolean", "int", "long", "float", "double", "string", "bytes")


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of plain type; `branch` is the byte that says in a nullable one that there is a value, None if it is not nullable."""

    name: str
    kind: str
    branch: int | None
    schema: ConnectSchema


def _fields(text: str, imports: dict[str, str], unwrapped: bool) -> list[_Field] | None:
    """The fields of a schema, or the only value of an unwrapped one; None if one of them is not plain."""
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


def _field(name: str, kind: Any, schema: ConnectSchema) -> _Field | None:
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
    """Read framed records that were all written with one schema of plain fields."""
    return framed_decoder(spec, "AVRO", lambda schema, _: _reader(spec, schema, types))


def _reader(spec: SerdeSpec, schema: RegisteredSchema, types: Sequence[pa.DataType]) -> _Reader | None:
    fields = _fields(schema.text, spec.schemas.imports_of(schema), spec.unwrapped)
    if fields is None:
        return None
    names = (
        [field.name for field in fields]
        if spec.unwrapped
        else [x.name for x in LANGUAGES["AVRO"].wire_columns(spec.columns)]
    )
    found = find_fields(
        names, [column.type for column in spec.columns], [(field.name, field.schema) for field in fields]
    )
    return None if found is None else _Reader(fields, found, types)


@dataclass(frozen=True, slots=True)
class _Reader:
    fields: Sequence[_Field]
    positions: dict[int, int]
    types: Sequence[pa.DataType]

    def read(self, data: pa.BinaryArray, header: bytes) -> list[pa.Array]:
        """Read every field of every record, and give those that are columns."""
        cursor = n.open_records(data)
        n.skip_header(cursor, header)
        return as_columns(
            len(data), self.types, [_nullable(cursor, field) for field in self.fields], self.positions, _as
        )


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
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
    (rows,) = np.nonzero(valid)
    part = cursor.of(rows)
    array = read(part)
    cursor.at[rows] = part.at
    spread = np.zeros(len(valid), dtype=np.int32)
    spread[rows] = np.arange(len(rows), dtype=np.int32)
    return array.take(pa.array(spread, mask=~valid))


def _read_boolean(cursor: n.Cursor) -> pa.Array:
    found = n.read_bytes(cursor)
    require((found <= 1).all())
    return pa.array(found.astype(bool))


def _read_int(cursor: n.Cursor) -> pa.Array:
    found = n.unzigzag(n.read_varints(cursor))
    require(((found >= INT_MIN) & (found <= INT_MAX)).all())
    return pa.array(found)


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

_WRITTEN: dict[SqlType, frozenset[str]] = {
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
    """Write framed records of plain columns with a schema that has the same fields."""
    if spec.unwrapped or any(column.type not in _WRITTEN for column in spec.columns):
        return None
    schema = written_schema(spec)
    fields = _fields(schema.text, spec.schemas.imports_of(schema), unwrapped=False)
    columns = LANGUAGES["AVRO"].wire_columns(spec.columns)
    if fields is None or [field.name for field in fields] != [column.name for column in columns]:
        return None
    if not all(_takes(field, column.type) for field, column in zip(fields, columns, strict=True)):
        return None
    header = pa.scalar(frame(schema.id, b""), type=pa.binary())

    def encode(arrays: Sequence[pa.Array]) -> pa.BinaryArray:
        pieces = [piece for field, array in zip(fields, arrays, strict=True) for piece in _pieces(field, array)]
        return pc.binary_join_element_wise(header, *pieces, pa.scalar(b"", type=pa.binary()))

    return encode


def _takes(field: _Field, sql_type: SqlType) -> bool:
    return (
        field.branch is not None
        and field.kind in _WRITTEN[sql_type]
        and field.schema.default in (None, Missing.MISSING)
    )


def _pieces(field: _Field, array: pa.Array) -> list[pa.Array]:
    there = valid_of(array)
    wanted: Numbers = np.ones(len(array), dtype=bool) if there is None else there
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
