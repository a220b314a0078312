"""Converts whole Arrow columns to lists of Python values and back, without a Python call for each cell.

The Python values are those of `docs/architecture.md`: STRUCT and MAP are dicts, ARRAY is a list, BYTES is bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.arrow.types import arrow_struct, carries, to_arrow
from kestrel_sql.arrow.values import to_arrow_value, uncarried
from kestrel_sql.types.schema import Column

Rows = list[tuple[Any, ...] | None]
"""Rows in column order; None is a NULL struct."""

_HALVES = "surrogatepass"
"""How Python writes half of a surrogate pair, a character of ksqlDB's strings that UTF-8 has not (rule U4.9)."""


def to_list(array: pa.Array) -> list[Any]:
    """Return the values of an array."""
    kind = array.type
    if pa.types.is_struct(kind):
        if carries(kind):
            return [None if value is None else uncarried(value) for value in array.to_pylist()]
        names = [kind.field(at).name for at in range(kind.num_fields)]
        return _lifted([dict(zip(names, row, strict=True)) for row in _tuples(array)], array)
    if pa.types.is_map(kind):
        (keys, items), bounds = _below(array, array.keys, array.items)
        return _lifted([dict(zip(keys[a:b], items[a:b], strict=True)) for a, b in bounds], array)
    if pa.types.is_list(kind):
        (values,), bounds = _below(array, array.values)
        return _lifted([values[a:b] for a, b in bounds], array)
    if pa.types.is_null(kind):
        return [None] * len(array)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        # NumPy has no NULL for these types; `_lifted` puts None back.
        filled = array.fill_null(False if pa.types.is_boolean(kind) else 0) if array.null_count else array
        return _lifted(filled.to_numpy(zero_copy_only=False).tolist(), array)
    try:
        found: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    except pa.ArrowException:
        if not pa.types.is_string(kind):
            raise
        found = [None if each is None else each.decode("utf-8", _HALVES) for each in to_list(array.view(pa.binary()))]
    return found


def to_rows(array: pa.StructArray) -> Rows:
    """Return the rows of a struct column as tuples; None for a NULL struct."""
    return _lifted(_tuples(array), array)


def to_array(values: Sequence[object], column: Column) -> pa.Array:
    """Make an Arrow column of Python values.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the type.
    """
    convert, kind = to_arrow_value(column.type), to_arrow(column.type)
    given = values if convert is None else [convert(value) for value in values]
    return array_of(given, kind)


def array_of(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Make an array of values in the form that Arrow takes."""
    try:
        return pa.array(values, type=kind)
    except UnicodeEncodeError:
        return _with_halves(values, kind)


def _with_halves(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Make an array of values with halves of surrogate pairs, which Arrow then holds as bytes that are not UTF-8."""
    missing = pa.array([value is None for value in values])
    if pa.types.is_string(kind):
        data = [None if value is None else value.encode("utf-8", _HALVES) for value in values]
        return pa.array(data, pa.binary()).view(kind)
    if pa.types.is_struct(kind):
        rows = [value or {} for value in values]
        children = [
            _with_halves([row[at] if isinstance(row, tuple) else row.get(field.name) for row in rows], field.type)
            for at, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=missing)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        items = [each for value in values for each in value or ()]
        offsets = pa.array(np.cumsum([0, *(len(value or ()) for value in values)]), pa.int32())
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(offsets, _with_halves(items, kind.value_type), type=kind, mask=missing)
        keys, found = (
            _with_halves([each[at] for each in items], of) for at, of in enumerate((kind.key_type, kind.item_type))
        )
        return pa.MapArray.from_arrays(offsets, keys, found, type=kind, mask=missing)
    return pa.array(values, kind)


def from_rows(rows: Sequence[Sequence[object] | None], columns: Sequence[Column]) -> pa.StructArray:
    """Make a struct column of rows in column order.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit its type, such as a DECIMAL with too many digits.
    """
    if not columns:
        return pa.array([None if row is None else {} for row in rows], type=arrow_struct(()))
    fields = [pa.field(column.name, to_arrow(column.type)) for column in columns]
    mask = None
    if None in rows:
        mask = pa.array([row is None for row in rows])
        nothing = (None,) * len(fields)
        rows = [nothing if row is None else row for row in rows]
    turned = zip(*rows, strict=True) if rows else iter([()] * len(fields))
    arrays = [to_array(values, column) for values, column in zip(turned, columns, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def taken(array: pa.Array, at: pa.Array) -> pa.Array:
    """Return what `take` does, sooner where there are only NULLs or empty lists, as in most headers and logs."""
    kind = array.type
    if array.null_count == len(array):
        return pa.nulls(len(at), kind)
    if pa.types.is_list(kind) and not array.null_count and array.offsets[0] == array.offsets[-1]:
        return pa.ListArray.from_arrays(pa.array(np.zeros(len(at) + 1, np.int32)), pa.array([], kind.value_type))
    return array.take(at)


def _tuples(array: pa.StructArray) -> list[Any]:
    if array.type == arrow_struct(()):
        return [()] * len(array)
    return list(zip(*(to_list(child) for child in array.flatten()), strict=True))


def _below(
    array: pa.ListArray | pa.MapArray, *children: pa.Array
) -> tuple[list[list[object]], Iterator[tuple[int, int]]]:
    """The child values of an array, and the bounds of each entry in them.

    A slice refers to all values of its array. Only its own are converted, because an array may have many slices.
    """
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return [to_list(child.slice(first, last - first)) for child in children], pairwise((offsets - first).tolist())


def _lifted(values: list[Any], array: pa.Array) -> list[Any]:
    """Set the values to None where the array is NULL."""
    if array.null_count:
        for at in pc.indices_nonzero(array.is_null()).to_numpy().tolist():
            values[at] = None
    return values
