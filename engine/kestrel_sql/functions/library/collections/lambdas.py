"""Functions that take a lambda, which is a Python function of its parameters.

If the lambda fails for one item, the call fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.functions.values.equality import hash_map
from kestrel_sql.functions.values.size_limits import MAX_ITEMS, check_size
from kestrel_sql.java.hash_order import DEFAULT_CAPACITY

Items = list[Any] | None
Entries = dict[Any, Any] | None
Lambda = Callable[..., Any]


def _transform_columns(arrays: ArrowArray, mapping: Lambda) -> ArrowArray | None:
    items = late.lists.items_of(arrays)
    found = mapping(late.lists.parents_of(arrays), items)
    return None if found is None else late.lists.with_items(arrays, found)


@scalar(
    "(array ARRAY<T>, function LAMBDA (T) => R) -> ARRAY<R>",
    name="TRANSFORM",
    nulls=Nulls.BODY,
    columns=_transform_columns,
    calls=zip,
    display_name="transform",
)
def transform_array(items: Items, mapping: Lambda) -> Items:
    """Apply the lambda to each item and return the results.

    Example: TRANSFORM(ARRAY[1, 2], x => x * 10) -> ARRAY[10, 20]
    """
    return None if items is None else [mapping(item) for item in items]


def _hash_order(keys: tuple[object, ...]) -> list[int] | None:
    places = {key: at for at, key in enumerate(keys)}
    return list(hash_map(places, DEFAULT_CAPACITY).values()) if len(places) == len(keys) else None


def _transform_map_columns(maps: ArrowArray, key: Lambda, value: Lambda) -> ArrowArray | None:
    parents, entries = late.lists.parents_of(maps), late.lists.entries_of(maps)
    names, items = key(parents, *entries), value(parents, *entries)
    if names is None or items is None or items.null_count:
        return None
    return late.lists.with_entries(maps, late.lists.offsets_of(maps), names, items, _hash_order)


@scalar(
    "(map MAP<K, V>, biFunction1 LAMBDA (K, V) => R, biFunction2 LAMBDA (K, V) => T) -> MAP<R, T>",
    name="TRANSFORM",
    nulls=Nulls.BODY,
    columns=_transform_map_columns,
    calls=dict.items,
    display_name="transform",
)
def transform_map(entries: Entries, key: Lambda, value: Lambda) -> Entries:
    """Return a map with the results of the lambdas for each entry as keys and values.

    Equal keys and NULL values are an error.

    Example: TRANSFORM(MAP('a' := 1), (k, v) => UCASE(k), (k, v) => v + 1) -> MAP('A' := 2)
    """
    if entries is None:
        return None
    result: dict[Any, Any] = {}
    for entry in entries.items():
        name, item = key(*entry), value(*entry)
        if name in result or item is None:
            raise ValueError("TRANSFORM produced a duplicate key or a NULL")
        result[name] = item
    return hash_map(result, DEFAULT_CAPACITY)


def _keeps(keep: Lambda, *item: object) -> bool:
    kept = keep(*item)
    if kept is None:
        raise ValueError("the lambda of FILTER returned NULL")
    return bool(kept)


def _filter_columns(arrays: ArrowArray, keep: Lambda) -> ArrowArray | None:
    items = late.lists.items_of(arrays)
    keeps = keep(late.lists.parents_of(arrays), items)
    if keeps is None or keeps.null_count:
        return None
    kept, offsets = late.lists.kept(arrays, keeps)
    mask = arrays.is_null() if arrays.null_count else None
    return late.pa.ListArray.from_arrays(offsets, items.take(kept), mask=mask)


@scalar(
    "(array ARRAY<T>, function LAMBDA (T) => BOOLEAN) -> ARRAY<T>",
    name="FILTER",
    nulls=Nulls.BODY,
    columns=_filter_columns,
    calls=zip,
    display_name="filter",
)
def filter_array(items: Items, keep: Lambda) -> Items:
    """Return the items for which the lambda is true; it is an error if the lambda returns NULL.

    Example: FILTER(ARRAY[1, 2, 3], x => x > 1) -> ARRAY[2, 3]
    """
    return None if items is None else [item for item in items if _keeps(keep, item)]


def _filter_map_columns(maps: ArrowArray, keep: Lambda) -> ArrowArray | None:
    names, items = late.lists.entries_of(maps)
    keeps = keep(late.lists.parents_of(maps), names, items)
    if keeps is None or keeps.null_count:
        return None
    kept, offsets = late.lists.kept(maps, keeps)
    names, items = names.take(kept), items.take(kept)
    return None if items.null_count else late.lists.with_entries(maps, offsets, names, items, _hash_order)


@scalar(
    "(map MAP<K, V>, biFunction LAMBDA (K, V) => BOOLEAN) -> MAP<K, V>",
    name="FILTER",
    nulls=Nulls.BODY,
    columns=_filter_map_columns,
    calls=dict.items,
    display_name="filter",
)
def filter_map(entries: Entries, keep: Lambda) -> Entries:
    """Return the entries for which the lambda is true.

    It is an error if the lambda returns NULL, or if it is true for a NULL value.

    Example: FILTER(MAP('a' := 1, 'b' := 2), (k, v) => v > 1) -> MAP('b' := 2)
    """
    if entries is None:
        return None
    kept = {key: value for key, value in entries.items() if _keeps(keep, key, value)}
    if None in kept.values():
        raise ValueError("FILTER cannot keep a NULL value")
    return hash_map(kept, DEFAULT_CAPACITY)


def _reduce(items: Sequence[tuple[object, ...]] | None, initial: object, step: Lambda) -> object:
    state = initial
    if initial is None or items is None:
        return state
    for item in items:
        if isinstance(state, list):
            check_size(len(state), MAX_ITEMS)
        elif isinstance(state, str | bytes):
            check_size(len(state))
        state = step(state, *item)
    return state


def _reduce_columns(arrays: ArrowArray, initial: ArrowArray, step: Lambda) -> ArrowArray | None:
    if isinstance(initial, late.pa.Scalar):
        initial = late.pa.repeat(initial, len(arrays))
    # A state that grows may become too large.
    kind = initial.type
    if initial.null_count or not late.pa.types.is_primitive(kind):
        return None
    return late.lists.reduced(arrays, initial, step, _FEW)


_FEW = 32
"""The most items that a whole column is reduced with: each takes a call of the lambda for all rows."""


@scalar(
    "(list ARRAY<T>, initialState S, biFunction LAMBDA (S, T) => S) -> S",
    name="REDUCE",
    nulls=Nulls.BODY,
    columns=_reduce_columns,
    display_name="reduce",
)
def reduce_array(items: Items, initial: object, step: Lambda) -> object:
    """Reduce an array to one value: the lambda computes the next state from a state and an item.

    The first state is `initialState`, the last one is the result. A NULL array gives `initialState`, and if that is
    NULL, NULL. A state of more than 16777216 bytes or 1048576 items is an error.

    Example: REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x) -> 16
    """
    return _reduce(None if items is None else [(item,) for item in items], initial, step)


@scalar(
    "(map MAP<K, V>, initialState S, triFunction LAMBDA (S, K, V) => S) -> S",
    name="REDUCE",
    nulls=Nulls.BODY,
    display_name="reduce",
)
def reduce_map(entries: Entries, initial: object, step: Lambda) -> object:
    """Reduce a map to one value: the lambda computes the next state from a state, a key and a value.

    The entries come in the order of a Java HashMap. A NULL map gives `initialState`, and if that is NULL,
    NULL.

    Example: REDUCE(MAP('b' := 2, 'a' := 1), '', (s, k, v) => s + k) -> 'ab'
    """
    return _reduce(None if entries is None else list(entries.items()), initial, step)
