"""Implements the native functions of arrays, maps and lambdas in Python (see `kestrel_sql.expressions.compiler`).

A lambda argument is a Python function of its parameters; an exception in it fails the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kestrel_sql.functions.declaration import CallTypes
from kestrel_sql.functions.interpreter.casts import java_text
from kestrel_sql.functions.interpreter.equality import distinct, equality_key, in_hash_map_order, sort_key
from kestrel_sql.functions.interpreter.scalars import Implementation
from kestrel_sql.functions.library.spark_sql.size_limits import MAX_ITEMS, check_size
from kestrel_sql.java.numbers import wrap_integer
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Decimal, Primitive, SqlType

Items = list[Any] | None
Entries = dict[Any, Any] | None
_NO_TEXT = (t.BYTES, t.DATE, t.TIME, t.TIMESTAMP)


def _item(types: CallTypes) -> SqlType | None:
    return next((argument.item for argument in types.arguments if isinstance(argument, Array)), None)


def _ordered(types: CallTypes) -> bool:
    return isinstance(_item(types), Primitive | Decimal)


def _array_concat(types: CallTypes, first: Items, second: Items) -> Items:
    if first is None or second is None:
        return second if first is None else first
    return [*first, *second]


def _array_contains(types: CallTypes, items: Items, wanted: Any) -> bool:
    return equality_key(wanted) in map(equality_key, items or ())


def _array_remove(types: CallTypes, items: Items, unwanted: Any) -> Items:
    return None if items is None else [item for item in items if equality_key(item) != equality_key(unwanted)]


def _sets(keep: Callable[[list[Any], list[Any]], list[Any]]) -> Implementation:
    def implementation(types: CallTypes, left: Items, right: Items) -> Items:
        return None if left is None or right is None else distinct(keep(left, right))

    return implementation


def _within(items: Sequence[Any], others: Sequence[Any], *, wanted: bool) -> list[Any]:
    known = set(map(equality_key, others))
    return [item for item in items if (equality_key(item) in known) is wanted]


def _array_join(types: CallTypes, items: Items, delimiter: str | None = ",") -> str | None:
    item = _item(types)
    if items is None:
        return None
    if (not _ordered(types) or item in _NO_TEXT) and any(x is not None for x in items):
        raise ValueError("ARRAY_JOIN cannot convert these items to strings")
    texts = (java_text(x, item) for x in items)  # type: ignore[arg-type]
    return (delimiter or "").join(texts)


def _extreme(choose: Callable[..., Any]) -> Implementation:
    def implementation(types: CallTypes, items: Items) -> Any:
        present = [item for item in items or () if item is not None]
        if present and not _ordered(types):
            raise ValueError("the items cannot be ordered")
        return choose(present, key=sort_key) if present else None

    return implementation


def _array_sort(types: CallTypes, items: Items, direction: str | None = "ASC") -> Items:
    if items is not None and not _ordered(types) and sum(item is not None for item in items) > 1:
        raise ValueError("the items cannot be ordered")
    word = (direction or "").upper()
    if items is None or word not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        return None
    present = sorted((item for item in items if item is not None), key=sort_key, reverse=word.startswith("DESC"))
    return present + [None] * (len(items) - len(present))


def _slice(types: CallTypes, items: Items, start: int | None, end: int | None) -> Items:
    if items is None:
        return None
    skipped = 0 if start is None else wrap_integer(start - 1, 32)
    last = len(items) if end is None else end
    if skipped < 0 or last > len(items):
        return None
    if skipped > last:
        raise ValueError("the end of SLICE is before its start")
    return items[skipped:last]


def _series(types: CallTypes, start: int, end: int, step: int | None = None) -> list[int]:
    by = step if step is not None else 1 if end > start else -1
    if by == 0 or (end > start and by < 0) or (end < start and by > 0):
        raise ValueError("the step of GENERATE_SERIES has the wrong sign or is zero")
    check_size(abs(end - start) // abs(by), MAX_ITEMS - 1)
    return list(range(start, end + (1 if by > 0 else -1), by))


def _as_map(types: CallTypes, keys: Items, values: Items) -> Entries:
    if keys is None or values is None:
        return None
    return {key: values[i] if i < len(values) else None for i, key in enumerate(keys)}


def _map_union(types: CallTypes, first: Entries, second: Entries) -> Entries:
    return None if first is None and second is None else {**(first or {}), **(second or {})}


def _entries(types: CallTypes, mapping: Entries, ordered: bool) -> Items:
    if mapping is None:
        return None
    listed = sorted(mapping.items(), key=lambda entry: sort_key(entry[0])) if ordered else in_hash_map_order(mapping)
    return [{"K": key, "V": value} for key, value in listed]


def _transform_map(types: CallTypes, mapping: Entries, key: Callable[..., Any], value: Callable[..., Any]) -> Entries:
    if mapping is None:
        return None
    result: dict[Any, Any] = {}
    for entry in mapping.items():
        name, item = key(*entry), value(*entry)
        if name in result or item is None:
            raise ValueError("TRANSFORM produced a duplicate key or a NULL")
        result[name] = item
    return result


def _keeps(keep: Callable[..., Any], *item: Any) -> bool:
    kept = keep(*item)
    if kept is None:
        raise ValueError("the lambda of FILTER returned NULL")
    return bool(kept)


def _filter_map(types: CallTypes, mapping: Entries, keep: Callable[..., Any]) -> Entries:
    if mapping is None:
        return None
    kept = {key: value for key, value in mapping.items() if _keeps(keep, key, value)}
    if None in kept.values():
        raise ValueError("FILTER cannot keep a NULL value")
    return kept


def _reduce(items: Sequence[tuple[Any, ...]] | None, initial: Any, step: Callable[..., Any]) -> Any:
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


def _map_build(types: CallTypes, entries: list[Any]) -> dict[str, Any]:
    return {entry["KEY"]: entry["VALUE"] for entry in entries if entry is not None and entry["KEY"] is not None}


def _header_values(types: CallTypes, entries: list[Any], key: str) -> list[Any]:
    return [entry["VALUE"] for entry in entries if entry is not None and entry["KEY"] == key]


def _header_value(types: CallTypes, entries: list[Any], key: str) -> Any:
    return next(reversed(_header_values(types, entries, key)), None)


def _convert_from(types: CallTypes, data: bytes, encoding: str) -> str:
    if encoding.lower() not in ("utf8", "utf-8"):
        raise ValueError(f"unknown encoding {encoding}")
    return data.decode("utf-8")


IMPLEMENTATIONS: Mapping[str, Implementation] = {
    "array_concat": _array_concat,
    "array_contains": _array_contains,
    "array_distinct": lambda types, items: None if items is None else distinct(items),
    "array_except": _sets(lambda left, right: _within(left, right, wanted=False)),
    "array_intersect": _sets(lambda left, right: _within(left, right, wanted=True)),
    "array_join": _array_join,
    "array_length": lambda types, items: None if items is None else len(items),
    "array_max": _extreme(max),
    "array_min": _extreme(min),
    "array_remove": _array_remove,
    "array_sort": _array_sort,
    "array_union": _sets(lambda left, right: [*left, *right]),
    "as_map": _as_map,
    "convert_from": _convert_from,
    "entries": _entries,
    "explode": lambda types, items: items,
    "filter_array": lambda types, items, keep: None if items is None else [x for x in items if _keeps(keep, x)],
    "filter_map": _filter_map,
    "generate_series": _series,
    "header_value": _header_value,
    "header_values": _header_values,
    "map_build": _map_build,
    "map_keys": lambda types, mapping: None if mapping is None else [key for key, _ in in_hash_map_order(mapping)],
    "map_union": _map_union,
    "map_values": lambda types, mapping: (
        None if mapping is None else [value for _, value in in_hash_map_order(mapping)]
    ),
    "reduce_array": lambda types, items, initial, step: _reduce(
        None if items is None else [(x,) for x in items], initial, step
    ),
    "reduce_map": lambda types, mapping, initial, step: _reduce(
        None if mapping is None else in_hash_map_order(mapping), initial, step
    ),
    "slice_": _slice,
    "transform_array": lambda types, items, transform: None if items is None else [transform(x) for x in items],
    "transform_map": _transform_map,
}
"""By the name of the declared body."""
