"""Compares and orders Python values as Spark does, and orders map entries as a Java HashMap does."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from kestrel_sql.java.hash_order import java_hash_order
from kestrel_sql.java.utf16 import units


def equality_key(value: Any) -> Hashable:
    """Return a key that is equal for equal values: NULL equals NULL, NaN equals NaN, the order of a map is ignored."""
    return _key(value, lambda number: "NaN" if math.isnan(number) else number)


def item_key(value: Any) -> Hashable:
    """Return a key that is equal where Java's `equals` is true, as between items of arrays: -0.0 is not 0.0."""
    return _key(value, lambda number: ("double", repr(number)))


def _key(value: Any, of_double: Callable[[float], Hashable]) -> Hashable:
    match value:
        case float():
            return of_double(value)
        case list():
            return ("array", *(_key(item, of_double) for item in value))
        case dict():
            return ("map", frozenset((key, _key(item, of_double)) for key, item in value.items()))
        case _:
            return (value,)


def sort_key(value: Any) -> Any:
    """Return a sort key for values of one type, in the order of Java.

    NaN is the greatest number, strings sort by UTF-16 units, bytes are signed, and arrays sort by item.
    """
    match value:
        case str():
            return units(value)
        case float():
            return (math.isnan(value), 0.0 if math.isnan(value) else value)
        case bytes():
            return bytes(byte ^ 0x80 for byte in value)
        case list():
            return [(item is not None, None if item is None else sort_key(item)) for item in value]
        case _:
            return value


def as_comparable_numbers(left: Any, right: Any) -> tuple[Any, Any]:
    """Make two numbers comparable: if one is a DOUBLE, convert the other to DOUBLE."""
    if isinstance(left, float) or isinstance(right, float):
        return tuple(float(x) if isinstance(x, int | Decimal) and not isinstance(x, bool) else x for x in (left, right))  # type: ignore[return-value]
    return left, right


def in_hash_map_order(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """List the entries of a map in the order of a HashMap with its size as initial capacity.

    `kestrel_sql.functions.library.spark_sql.map_order` does the same in Spark.
    """
    keys = list(mapping)
    if not all(key is None or isinstance(key, str | int) for key in keys):
        return list(mapping.items())
    return [(key, mapping[key]) for key in java_hash_order(keys, capacity=1)]


def distinct(items: Iterable[Any]) -> list[Any]:
    """Return the items without later duplicates."""
    unique: dict[Hashable, Any] = {}
    for item in items:
        unique.setdefault(item_key(item), item)
    return list(unique.values())
