"""What ksqlDB's internal topics and stores make of the values that they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from msgspec.structs import replace

from kestrel_sql.arrow import late
from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Cells, Log, Part, Rows
from kestrel_sql.errors import SerdeError
from kestrel_sql.expressions import columns
from kestrel_sql.formats.format import WRAP
from kestrel_sql.formats.known import protobuf_nosr
from kestrel_sql.formats.null_keys import NULL_KEY, named_keys
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.table import format_of
from kestrel_sql.java.utf16 import without_halves
from kestrel_sql.plan.step import FormatInfo, Formats
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BYTES, STRING, Array, Field, Map, SqlType, Struct


def crossed(formats: Formats, query: GraphQuery, source: Relation) -> Relation:
    """Give rows with a new key what an internal topic gives back of their keys and values (rules F4.3.7 and F9.2)."""
    of_key = [_reader(formats.key_format, column) for column in source.schema.key]
    of_value = [_reader(formats.value_format, column) for column in source.schema.value]
    if not any((*of_key, *of_value)):
        return source

    def apply(_: Log, rows: Rows) -> Rows:
        return replace(
            rows,
            key=_read_with(of_key, rows.key),
            value=_read_with(of_value, rows.value),
            old=None if rows.old is None else _read_with(of_value, rows.old),
            old_key=None if rows.old_key is None else _read_with(of_key, rows.old_key),
        )

    names = sorted({info.format for info in (formats.key_format, formats.value_format)})
    return query.then(source, apply, source, f"read back from {' and '.join(names)}")


_Reader = Callable[[Cells], columns.Column | None]


def _read_with(readers: Sequence[_Reader | None], part: Part) -> Part:
    def change(place: int, cells: Cells) -> columns.Column | None:
        read = readers[place]
        return None if read is None else read(cells)

    return part.changed(change)


def repartitioned(formats: Formats, query: GraphQuery, source: Relation) -> Relation:
    """Bring the rows of a side of a join over an internal topic if they have a new key.

    A key whose only column is NULL comes back as none, and DELIMITED loses its row (rule F4.3.7). A format that wraps
    single columns keeps it.
    """
    if not source.rekeyed:
        return source
    key_format = format_of(formats.key_format.format)
    if key_format.features == {WRAP}:
        return crossed(formats, query, source)
    if key_format.loses_empty:
        return crossed(formats, query, without_null_keys(query, source))

    def apply(_: Log, rows: Rows) -> Rows:
        known = _known(rows.key)
        return rows if known is None else replace(rows, key=rows.key.where(known))

    return crossed(formats, query, query.then(source, apply, source, "drop keys that are NULL"))


def without_null_keys(query: GraphQuery, source: Relation) -> Relation:
    """Drop the rows whose key is a single column that is NULL: DELIMITED cannot read what it writes (rule F4.3.6)."""

    def apply(_: Log, rows: Rows) -> Rows:
        known = _known(rows.key)
        return rows if known is None else rows.where(known)

    return query.then(source, apply, source, "drop rows with a key that is NULL")


def _known(key: Part) -> Sequence[bool] | None:
    """Which keys are not a single column that is NULL; None if none is."""
    array = key.cells[0].array
    if len(key.cells) > 1 or (array is not None and not array.null_count):
        return None
    values = key.cells[0].values()
    return [value is not None for value in values] if None in values else None


def restored(formats: Formats, kind: SqlType, fresh: object, *, is_listed: bool) -> Callable[[object], object] | None:
    """Return what a store makes of the states of an aggregate, None if nothing (rule F10.2).

    Args:
        formats: those of the store.
        kind: the type of the states.
        fresh: the state without rows.
        is_listed: whether the states of STRUCTs are lists.
    """
    info = formats.value_format
    match kind:
        case Map():
            name = format_of(info.format).null_key
            return None if name is None else partial(_key_named, name)
        case Array(Struct(fields)) if is_listed:
            of_entry = _listed(info, fields)
            return None if of_entry is None else partial(_each, of_entry)
        case Struct(fields) if is_listed and fresh is None:
            return _listed(info, fields)
        case _:
            return None if is_listed or not (fresh is None or isinstance(kind, Array)) else _stored(info, kind)


def _key_named(text: str, counts: object) -> object:
    """Name the NULL among the keys of a HISTOGRAM; of two with one name, the older is written and read last."""
    if isinstance(counts, dict) and None in counts:
        count = counts.pop(None)
        counts.setdefault(text, count)
    return counts


def _listed(info: FormatInfo, fields: Sequence[Field]) -> Callable[[object], object] | None:
    readers = [_stored(info, field.type) for field in fields]
    return partial(_each_field, readers) if any(readers) else None


def _each_field(readers: Sequence[Callable[[object], object] | None], state: object) -> object:
    if not isinstance(state, list):
        return state
    return [value if read is None else read(value) for read, value in zip(readers, state, strict=True)]


def _each(read: Callable[[object], object], states: object) -> object:
    return [*map(read, states)] if isinstance(states, list) else states


def _stored(info: FormatInfo, kind: SqlType) -> Callable[[object], object] | None:
    """What reads a value back, None if it comes back as it is."""
    found = format_of(info.format)
    if found.loses_empty and kind in (STRING, BYTES):
        return partial(_same_or, None, "" if kind == STRING else b"")
    if not found.loses_null:
        return without_halves if kind == STRING and not found.keeps_halves else None
    info = replace(info, format=protobuf_nosr.FORMAT.name)
    if isinstance(kind, Array | Map | Struct):
        return partial(_from_protobuf, info, Column("VALUE", kind))
    default = _read_back(info, Column("VALUE", kind))(None)
    return None if default is None else partial(_same_or, default, None)


def _same_or(other: object, lost: object, value: object) -> object:
    return other if value == lost else without_halves(value)


def _from_protobuf(info: FormatInfo, column: Column, value: object) -> object:
    # What reads it cannot go to another process.
    return _read_back(info, column)(value)


def with_named_keys(formats: Formats, query: GraphQuery, source: Relation) -> Relation:
    """Name the NULL keys of maps for a sink that has another name for them than Arrow and JSON (rule F9.3)."""
    null = format_of(formats.value_format.format).null_key
    if null is None or null == NULL_KEY:
        return source
    names = [named_keys([column], null) for column in source.schema.value]
    if not any(names):
        return source

    def change(place: int, cells: Cells) -> columns.Column | None:
        name = names[place]
        return None if name is None else [name((value,))[0] for value in cells.values()]

    def apply(_: Log, rows: Rows) -> Rows:
        return replace(rows, value=rows.value.changed(change))

    return query.then(source, apply, source, "name NULL keys of maps")


def _reader(info: FormatInfo, column: Column) -> _Reader | None:
    """What reads a column back; None for one whose values all come back as they are."""
    read = _stored(info, column.type)
    return None if read is None else partial(_read_cells, read, info.format)


def _read_cells(read: Callable[[object], object], name: str, cells: Cells) -> columns.Column | None:
    found = format_of(name)
    is_whole = cells.array is not None and late.texts.is_whole(
        cells.array, loses_null=found.loses_null, loses_empty=found.loses_empty
    )
    return None if is_whole else [*map(read, cells.values())]


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
