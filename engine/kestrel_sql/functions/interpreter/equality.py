"""Equality and order of Python values as Spark sees them, and the order of a Java HashMap."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from kestrel_sql.java.hash_order import java_hash_order


def identity(value: Any) -> Hashable:
    """Give what two values have in common exactly if they are equal: NULL equals NULL, NaN equals NaN, maps have no order."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value
        case list():
            return ("array", *map(identity, value))
        case dict():
            return ("map", frozenset((key, identity(item)) for key, item in value.items()))
        case _:
            return (value,)


def rank(value: Any) -> Any:
    """Give what orders values of one type: NaN is the greatest number, bytes have a sign, and arrays go item by item."""
    match value:
        case float():
            return (math.isnan(value), 0.0 if math.isnan(value) else value)
        case bytes():
            return bytes(byte ^ 0x80 for byte in value)
        case list():
            return [(item is not None, None if item is None else rank(item)) for item in value]
        case _:
            return value


def alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Make two numbers comparable: a DOUBLE beside an exact one makes both DOUBLE."""
    if isinstance(left, float) or isinstance(right, float):
        return tuple(float(x) if isinstance(x, int | Decimal) and not isinstance(x, bool) else x for x in (left, right))  # type: ignore[return-value]
    return left, right


def java_ordered(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """List the entries of a map in the order of a Java HashMap of just that size (`kestrel_sql.functions.library.spark_sql.map_order`)."""
    keys = list(mapping)
    if not all(isinstance(key, str | int) for key in keys):
        return list(mapping.items())
    return [(key, mapping[key]) for key in java_hash_order(keys, capacity=1)]


def distinct(items: Iterable[Any]) -> list[Any]:
    """Keep the first of all equal items."""
    found: dict[Hashable, Any] = {}
    for item in items:
        found.setdefault(identity(item), item)
    return list(found.values())
