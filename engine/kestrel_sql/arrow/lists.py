"""Makes and takes apart arrays of ARRAY, MAP and STRUCT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.arrow.columns import to_list

Numbers = npt.NDArray[np.int64]


def bounds_of(array: pa.Array) -> Numbers:
    """The bounds of each entry among the items of all."""
    found: Numbers = array.offsets.to_numpy().astype(np.int64)
    return found


def parents_of(array: pa.Array) -> pa.Array:
    """The row of each item."""
    return pa.array(np.repeat(np.arange(len(array)), np.diff(bounds_of(array))))


def offsets_of(array: pa.Array) -> pa.Array:
    """The offsets of the rows among the items of all."""
    bounds = array.offsets.to_numpy()
    return pa.array(bounds - bounds[0], pa.int32())


def items_of(array: pa.Array) -> pa.Array:
    """The items of all rows, those of NULL rows excepted."""
    bounds = array.offsets
    return array.values[bounds[0].as_py() : bounds[-1].as_py()]


def has_hidden(array: pa.Array) -> bool:
    """Whether a NULL row has items that nobody sees."""
    return bool(array.null_count and np.diff(bounds_of(array))[array.is_null().to_numpy(zero_copy_only=False)].any())


def with_items(array: pa.Array, items: pa.Array) -> pa.Array:
    """Return an array with other items in place of its own."""
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets_of(array), items, mask=mask)


def kept(array: pa.Array, keeps: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return which items of each row are kept, as indices among all, and the offsets of the rows then."""
    chosen = keeps.to_numpy(zero_copy_only=False)
    bounds = bounds_of(array)
    before = np.concatenate([[0], np.cumsum(chosen)])
    return pa.array(np.flatnonzero(chosen)), pa.array(before[bounds - bounds[0]].astype(np.int32))


def of_fields(kind: pa.DataType | None, *given: object) -> pa.Array | None:
    """Build the values of a STRUCT."""
    if kind is None:
        return None
    size = _size(given)
    arrays = [_array(each, size) for each in given]
    return pa.StructArray.from_arrays(_cast(arrays, [part.type for part in kind]), fields=list(kind))


def of_items(kind: pa.DataType | None, *given: object) -> pa.Array | None:
    """Build ARRAYs of items at the same places."""
    if kind is None:
        return None
    size = _size(given)
    arrays = _cast([_array(each, size) for each in given], [kind.value_type] * len(given))
    return pa.ListArray.from_arrays(_steps(size, len(given)), _interleaved(arrays, size)).cast(kind)


def of_entries(kind: pa.DataType | None, keys: Sequence[object], *given: object) -> pa.Array | None:
    """Build MAPs of the same keys in all rows, of which each has a column of values."""
    if kind is None:
        return None
    size = _size(given)
    values = _cast([_array(each, size) for each in given], [kind.item_type] * len(keys))
    repeated = pa.array([*keys] * size, kind.key_type)
    return pa.MapArray.from_arrays(_steps(size, len(keys)), repeated, _interleaved(values, size))


def _size(given: tuple[object, ...]) -> int:
    return next(len(each) for each in given if isinstance(each, pa.Array))


def _array(given: object, size: int) -> pa.Array:
    return given if isinstance(given, pa.Array) else pa.repeat(given, size)


def _cast(arrays: list[pa.Array], kinds: list[pa.DataType]) -> list[pa.Array]:
    return [each if each.type == kind else each.cast(kind) for each, kind in zip(arrays, kinds, strict=True)]


def _steps(size: int, width: int) -> pa.Array:
    return pa.array(np.arange(size + 1, dtype=np.int32) * width)


def _interleaved(arrays: list[pa.Array], size: int) -> pa.Array:
    """The first values of all arrays, then the second ones, and so on."""
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays).take(pa.array(np.arange(size * len(arrays)).reshape(-1, size).T.ravel()))


def item(array: pa.Array, position: object) -> pa.Array | None:
    """The item at a constant position of each ARRAY, NULL where there is none."""
    if not isinstance(position, pa.Scalar) or not isinstance(array, pa.Array):
        return None
    at, bounds = position.as_py(), bounds_of(array)
    lengths = np.diff(bounds)
    missing = lengths < abs(at) if at else lengths >= 0
    indices = bounds[:-1] + at - 1 if at > 0 else bounds[1:] + at
    if array.null_count:
        missing |= array.is_null().to_numpy(zero_copy_only=False)
    return array.values.take(pa.array(np.where(missing, 0, indices), mask=missing if missing.any() else None))


def entry(array: pa.Array, key: object) -> pa.Array | None:
    """The value of a constant key in each MAP, NULL where there is none."""
    if not isinstance(key, pa.Scalar) or not isinstance(array, pa.Array) or has_hidden(array):
        return None
    bounds = bounds_of(array)
    own = array.keys[int(bounds[0]) : int(bounds[-1])]
    found = np.flatnonzero(pc.equal(own, key).to_numpy(zero_copy_only=False)) + bounds[0]
    indices = np.full(len(array), -1)
    indices[np.searchsorted(bounds, found, "right") - 1] = found
    missing = indices < 0
    return array.items.take(pa.array(np.where(missing, 0, indices), mask=missing if missing.any() else None))


def field(array: pa.Array, name: str) -> pa.Array | None:
    """A field of each STRUCT."""
    at = array.type.get_field_index(name)
    return None if at < 0 else pc.struct_field(array, at)


def reduced(
    array: pa.Array, initial: pa.Array, step: Callable[[pa.Array, pa.Array, pa.Array], pa.Array | None], most: int
) -> pa.Array | None:
    """Fold the items of each ARRAY, the first items of all rows first; None for ARRAYs of more than `most` items."""
    bounds = bounds_of(array)
    lengths = np.diff(bounds)
    if lengths.max(initial=0) > most or array.null_count:
        return None
    state = initial
    for at in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > at)
        everywhere = len(rows) == len(lengths)
        own = state if everywhere else state.take(pa.array(rows))
        found = step(pa.array(rows), own, array.values.take(pa.array(bounds[rows] + at)))
        if found is None or found.type != state.type:
            return None
        state = found if everywhere else pc.replace_with_mask(state, pa.array(lengths > at), found)
    return state


def is_exact(kind: pa.DataType) -> bool:
    """Whether equal values of a type are equal in Java, too."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def counts(array: pa.Array, holds: pa.Array) -> Numbers:
    """How many items of each row hold."""
    bounds = bounds_of(array) - array.offsets[0].as_py()
    before = np.concatenate([[0], np.cumsum(holds.to_numpy(zero_copy_only=False))])
    found: Numbers = before[bounds[1:]] - before[bounds[:-1]]
    return found


def extremes(array: pa.Array, choose: str) -> pa.Array | None:
    """The greatest or the least integer of each row; None if a row has none, or one is NULL."""
    items, lengths = items_of(array), np.diff(bounds_of(array))
    if items.null_count or array.null_count or lengths.min(initial=1) == 0:
        return None
    bounds = bounds_of(array)[:-1] - array.offsets[0].as_py()
    values = items.to_numpy()
    return pa.array(getattr(np, choose).reduceat(values, bounds)) if len(values) else pa.array([], items.type)


def sliced(array: pa.Array, start: int, end: int) -> pa.Array:
    """The items of each row between two positions, NULL where it has not so many."""
    bounds = bounds_of(array)
    missing = np.diff(bounds) < end
    starts = np.minimum(bounds[:-1] + start, bounds[1:])
    lengths = np.where(missing, 0, end - start)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    mask = pa.array(missing) if missing.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array.values.take(pa.array(indices)), mask=mask)


def concatenated(first: pa.Array, second: pa.Array, most: int) -> pa.Array | None:
    """The items of one row after those of another; None if they may be too many."""
    one, other = np.diff(bounds_of(first)), np.diff(bounds_of(second))
    if (one + other).max(initial=0) > most:
        return None
    rows = np.arange(len(first))
    order = np.argsort(np.concatenate([np.repeat(rows, one), np.repeat(rows, other)]), kind="stable")
    offsets = np.concatenate([[0], np.cumsum(one + other)])
    items = pa.concat_arrays([items_of(first), items_of(second)]).take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def distinct(array: pa.Array) -> pa.Array:
    """The different items of each row, each at its first place."""
    items = items_of(array)
    codes = items.dictionary_encode().indices.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(array)), np.diff(bounds_of(array)))
    # Codes are given in the order of appearance: one that is greater than all before it is new.
    seen = pa.array(rows * (codes.max(initial=0) + 1) + codes).dictionary_encode().indices.to_numpy()
    keeps = np.concatenate([[True], np.diff(np.maximum.accumulate(seen)) > 0])[: len(items)]
    chosen, offsets = kept(array, pa.array(keeps))
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, items.take(chosen), mask=mask)


Order = Callable[[tuple[Any, ...]], Sequence[int] | None]
"""Returns the order of keys, as their places; None where two of them are equal."""


def entries_of(array: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """The keys and the values of all rows."""
    start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.keys[start:end], array.items[start:end]


def with_entries(array: pa.MapArray, offsets: pa.Array, keys: pa.Array, items: pa.Array, order: Order) -> object:
    """Return MAPs of other entries in place of those of an array; None if two keys of a row are equal."""
    if not is_exact(keys.type) or keys.null_count or has_hidden(array):
        return None
    indices = _ordered(keys, offsets.to_numpy(), order)
    if indices is None:
        return None
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(offsets, keys.take(indices), items.take(indices), mask=mask)


def _ordered(keys: pa.Array, bounds: Numbers, order: Order) -> pa.Array | None:
    lengths = np.diff(bounds)
    if len(keys) and lengths.min() == lengths.max():
        places = keys.dictionary_encode().indices.to_numpy().reshape(len(lengths), -1)
        if (places == places[0]).all():
            # Most maps of a column have the same keys.
            found = order(tuple(to_list(keys[: len(places[0])])))
            starts = bounds[:-1].reshape(-1, 1)
            return None if found is None else pa.array((starts + np.array(found)).ravel())
    known: dict[tuple[Any, ...], Sequence[int] | None] = {}
    listed, indices = to_list(keys), []
    for start, end in pairwise(bounds.tolist()):
        own = tuple(listed[start:end])
        if own not in known:
            known[own] = order(own)
        found = known[own]
        if found is None:
            return None
        indices += [start + at for at in found]
    return pa.array(indices, pa.int64())
