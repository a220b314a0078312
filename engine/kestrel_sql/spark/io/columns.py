"""Columns of Arrow as Python lists of our values, and back: whole columns at a time, for no cell costs a call of Python.

Our values are those of `docs/architecture.md`: a STRUCT and a MAP are dicts, an ARRAY is a list, bytes are bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.spark.types import to_arrow
from kestrel_sql.spark.values import to_arrow_value
from kestrel_sql.types.schema import Column

Rows = list[tuple[Any, ...] | None]
"""Rows in column order; None is a NULL struct."""

_ABOVE = np.iinfo(np.int64).min
"""Stands in a place where a deeper one has a number."""


def to_list(array: pa.Array) -> list[Any]:
    """Give the values of an array."""
    kind = array.type
    if pa.types.is_struct(kind):
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
        # NumPy has no NULL in them: an arbitrary value takes its place for a moment.
        filled = array.fill_null(False if pa.types.is_boolean(kind) else 0) if array.null_count else array
        return _lifted(filled.to_numpy(zero_copy_only=False).tolist(), array)
    found: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return found


def to_rows(array: pa.StructArray) -> Rows:
    """Give the rows of a struct column, as tuples."""
    return _lifted(_tuples(array), array)


def to_array(values: Sequence[Any], column: Column) -> pa.Array:
    """Make a column of our values.

    Raises:
        pyarrow.ArrowInvalid: a value that its type cannot hold.
    """
    convert = to_arrow_value(column.type)
    return pa.array(values if convert is None else [convert(value) for value in values], type=to_arrow(column.type))


def from_rows(rows: Sequence[Sequence[Any] | None], columns: Sequence[Column]) -> pa.StructArray:
    """Make a struct column of rows in column order.

    Raises:
        pyarrow.ArrowInvalid: a value that its type cannot hold, such as a DECIMAL with too many digits.
    """
    fields = [pa.field(column.name, to_arrow(column.type)) for column in columns]
    if not fields:
        return pa.array([None if row is None else {} for row in rows], type=pa.struct(fields))
    mask = None
    if None in rows:
        mask = pa.array([row is None for row in rows])
        nothing = (None,) * len(fields)
        rows = [nothing if row is None else row for row in rows]
    turned = zip(*rows, strict=True) if rows else iter([()] * len(fields))
    arrays = [to_array(values, column) for values, column in zip(turned, columns, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def to_places(array: pa.ListArray) -> list[list[int]]:
    """Give the places of rows; most often all of them are equally long."""
    bounds = array.offsets.to_numpy()
    flat = array.values.to_numpy()[bounds[0] : bounds[-1]]
    lengths = np.diff(bounds)
    if len(lengths) and (lengths == lengths[0]).all():
        places: list[list[int]] = flat.reshape(len(lengths), lengths[0]).tolist()
        return places
    return to_list(array)


def place_order(places: pa.ListArray) -> npt.NDArray[np.int64]:
    """The order of rows by their places, those of equal places as they stand; a place comes before those below it."""
    bounds = places.offsets.to_numpy()
    lengths = np.diff(bounds)
    flat = places.values.to_numpy()
    heads = flat[np.minimum(bounds[:-1], max(len(flat) - 1, 0))] if len(flat) else flat
    if len(lengths) and lengths.min() > 0 and (np.diff(heads) > 0).all():
        return np.arange(len(lengths))
    depth = int(lengths.max(initial=0))
    steps = [np.where(lengths > at, flat[np.minimum(bounds[:-1] + at, len(flat) - 1)], _ABOVE) for at in range(depth)]
    return np.lexsort(steps[::-1]) if steps else np.arange(len(lengths))


def before(places: pa.ListArray, place: Sequence[int]) -> int:
    """How many of these places, which are in order, come before another."""
    return bisect_left(range(len(places)), list(place), key=lambda at: places[at].as_py())


def _tuples(array: pa.StructArray) -> list[Any]:
    if array.type.num_fields == 0:
        return [()] * len(array)
    return list(zip(*(to_list(child) for child in array.flatten()), strict=True))


def _below(array: pa.ListArray | pa.MapArray, *children: pa.Array) -> tuple[list[list[Any]], Iterator[tuple[int, int]]]:
    """The values below an array, and where those of each entry begin and end among them.

    A slice knows all values of the array that it is cut from: only its own are taken, for an array may be cut into many slices.
    """
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return [to_list(child.slice(first, last - first)) for child in children], pairwise((offsets - first).tolist())


def _lifted(values: list[Any], array: pa.Array) -> list[Any]:
    """Put None where the array has NULL."""
    if array.null_count:
        for at in pc.indices_nonzero(array.is_null()).to_numpy().tolist():
            values[at] = None
    return values
