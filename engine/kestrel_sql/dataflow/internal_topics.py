"""What an internal topic, over which rows go to the tasks of new keys, makes of their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Cells, Log, Rows
from kestrel_sql.errors import SerdeError
from kestrel_sql.expressions import columns
from kestrel_sql.formats.known import protobuf_nosr
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.plan.step import FormatInfo, Formats
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Array, Map, Struct


def crossed(formats: Formats, query: GraphQuery, source: Relation) -> Relation:
    """Give rows the values that an internal topic gives back: PROTOBUF has no NULL of most types (rule F9.2)."""
    info = formats.value_format
    if not info.format.startswith("PROTOBUF"):
        return source
    readers = [_reader(replace(info, format=protobuf_nosr.FORMAT.name), column) for column in source.schema.value]

    def change(place: int, cells: Cells) -> columns.Column | None:
        read = readers[place]
        return None if read is None else read(cells)

    def apply(_: Log, rows: Rows) -> Rows:
        old = None if rows.old is None else rows.old.changed(change)
        return replace(rows, value=rows.value.changed(change), old=old)

    return query.then(source, apply, source, "read NULL back from PROTOBUF")


def _reader(info: FormatInfo, column: Column) -> Callable[[Cells], columns.Column | None] | None:
    """What reads a column back; None for one whose values all come back as they are."""
    if isinstance(column.type, Array | Map | Struct):
        return partial(_each_read_back, info, column)
    null = _read_back(info, column)(None)
    return None if null is None else partial(_filled, null)


def _filled(null: object, cells: Cells) -> columns.Column | None:
    if cells.array is not None and not cells.array.null_count:
        return None
    values = cells.values()
    return [null if value is None else value for value in values] if None in values else None


def _each_read_back(info: FormatInfo, column: Column, cells: Cells) -> columns.Column:
    return [*map(_read_back(info, column), cells.values())]


@cache
def _read_back(info: FormatInfo, column: Column) -> Callable[[object], object]:
    """What writes and reads a value; one that cannot be written, which ends a query of ksqlDB, stays."""
    spec = SerdeSpec(format=info, columns=(column,))
    encode, decode = protobuf_nosr.encoder(spec), protobuf_nosr.decoder(spec)

    def back(value: object) -> object:
        try:
            row = decode(encode((value,)))
        except SerdeError:
            return value
        return value if row is None else row[0]

    return back
