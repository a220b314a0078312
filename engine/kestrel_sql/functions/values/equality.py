"""Compares and orders Python values as Java's `equals` and `compareTo` do, and map entries as its HashMap does."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from kestrel_sql.java.hash_order import java_hash_order
from kestrel_sql.java.utf16 import units


def equality_key(value: object) -> Hashable:
    """Return a key that is equal where Java's `equals` is true.

    NULL equals NULL, NaN equals NaN, -0.0 is not 0.0, the order of a map is ignored.
    """
    match value:
        case float():
            return ("double", repr(value))
        case list():
            return ("array", *map(equality_key, value))
        case dict():
            return ("map", frozenset((key, equality_key(item)) for key, item in value.items()))
        case _:
            return (value,)


def sort_key(value: object) -> Any:
    """Return a sort key for values of one type, in the order of Java.

    NaN is the greatest number, -0.0 comes before 0.0, strings sort by UTF-16 units, bytes are signed, and arrays sort
    by item.
    """
    match value:
        case str():
            return units(value)
        case float():
            return (True,) if math.isnan(value) else (False, value, math.copysign(1.0, value))
        case bytes():
            return bytes(byte ^ 0x80 for byte in value)
        case list():
            return [(item is not None, None if item is None else sort_key(item)) for item in value]
        case _:
            return value


def hash_map(entries: Mapping[Any, object], capacity: int = 1) -> dict[Any, Any]:
    """Return a map with its entries in the order of a HashMap into which they were put one after the other (rule U4.2).

    Who makes a map calls this once, so that who lists its entries need not know who made it.

    Args:
        entries: what is put into the map.
        capacity: its initial capacity; by default it grows to what it needs.
    """
    if len(entries) < 2 or not all(key is None or isinstance(key, str | int) for key in entries):
        return dict(entries)
    return {key: entries[key] for key in java_hash_order(entries, capacity)}


def distinct(items: Iterable[object]) -> list[object]:
    """Return the items without later duplicates."""
    unique: dict[Hashable, Any] = {}
    for item in items:
        unique.setdefault(equality_key(item), item)
    return list(unique.values())
