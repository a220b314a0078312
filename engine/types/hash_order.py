"""The order in which a `java.util.HashMap` iterates, which ksqlDB lets its users see (`spec/functions.md`, general rules)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=str | None)

_DEFAULT_CAPACITY = 16


def java_string_hash(text: str) -> int:
    """Compute `String.hashCode`, as an unsigned 32-bit number."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def java_hash_order(keys: Iterable[Key], capacity: int = _DEFAULT_CAPACITY) -> list[Key]:
    """Order the distinct `keys` as a `HashMap` made with that initial capacity iterates after they are put in turn.

    A mapping is an iterable of its keys, so it can be given as it is. Keys of one bucket keep the order in which they were put;
    NULL lives in the first bucket.
    """
    listed = list(dict.fromkeys(keys))
    size = _table_size(len(listed), capacity)
    buckets = [0 if key is None else _bucket(java_string_hash(key), size) for key in listed]
    return [listed[i] for i in sorted(range(len(listed)), key=buckets.__getitem__)]


def _table_size(entries: int, capacity: int) -> int:
    size = 1
    while size < capacity or entries * 4 > size * 3:
        size *= 2
    return size


def _bucket(hashed: int, size: int) -> int:
    return (hashed ^ (hashed >> 16)) & (size - 1)
