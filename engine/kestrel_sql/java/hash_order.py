"""Orders keys as a `java.util.HashMap` iterates; ksqlDB shows that order (rules U4)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

Key = TypeVar("Key", bound=str | int | None)

DEFAULT_CAPACITY = 16
_SIGN = 1 << 31
_WORD = (1 << 32) - 1


def java_string_hash(text: str) -> int:
    """Return `String.hashCode` of the text as an unsigned 32-bit integer."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) & _WORD
    return value


def java_hash_order(keys: Iterable[Key], capacity: int = DEFAULT_CAPACITY) -> list[Key]:
    """Return the distinct `keys` in the iteration order of a `HashMap` into which they were put one after the other.

    `capacity` is the initial capacity of the map. Keys of one bucket keep the order in which they were put; None goes
    into the first bucket. An integer outside the range of INT hashes as a `Long`. A mapping may be passed for its keys.
    """
    listed = list(dict.fromkeys(keys))
    size = _table_size(len(listed), capacity)
    buckets = [_bucket(_java_hash(key), size) for key in listed]
    return [listed[i] for i in sorted(range(len(listed)), key=buckets.__getitem__)]


def _java_hash(key: str | int | None) -> int:
    match key:
        case None:
            return 0
        case str():
            return _short_hash(key) if len(key) <= _SHORT else java_string_hash(key)
        case bool():
            return 1231 if key else 1237
        case _ if -_SIGN <= key < _SIGN:
            return key & _WORD
        case _:
            return (key ^ (key >> 32)) & _WORD


_SHORT = 32
_short_hash = lru_cache(maxsize=1024)(java_string_hash)
"""The hash of a short text: most maps have the keys of other maps."""


def _table_size(entries: int, capacity: int) -> int:
    size = 1
    while size < capacity or entries * 4 > size * 3:
        size *= 2
    return size


def _bucket(hashed: int, size: int) -> int:
    return (hashed ^ (hashed >> 16)) & (size - 1)
