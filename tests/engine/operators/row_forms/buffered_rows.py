"""The rows of one input of a stream-stream join, which later rows of the other input may match."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any

from kestrel_sql.operators.operator import State

_SIDES = ("left", "right")

_time_of = itemgetter(0)


def newest(state: State, side: int) -> int | None:
    """Return the greatest timestamp (ms) of all rows that an input has had; None without one."""
    store = state.get(_SIDES[side])
    return None if store is None else int(store["newest"])


def rows_of(state: State, side: int) -> Mapping[bytes, Sequence[Sequence[Any]]]:
    """Return the buffered rows of an input by packed key: timestamp (ms) and values, by timestamp and arrival."""
    found: dict[bytes, list[list[Any]]] = state[_SIDES[side]]["rows"] if _SIDES[side] in state else {}
    return found


def within(state: State, side: int, packed_key: bytes, earliest: int, latest: int) -> Sequence[Sequence[Any]]:
    """Return the buffered rows of one key whose timestamps are in a span (ms, inclusive)."""
    rows = rows_of(state, side).get(packed_key, [])
    return rows[bisect_left(rows, earliest, key=_time_of) : bisect_right(rows, latest, key=_time_of)]


def add(state: State, side: int, packed_key: bytes, row: Sequence[Any], retention_ms: int) -> bool:
    """Buffer a row, which is a timestamp (ms) and values, and drop the rows that are older than the retention.

    Returns whether the row itself is not older.
    """
    store = _store(state, side, row[0])
    oldest = store["newest"] - retention_ms + 1
    is_kept: bool = row[0] >= oldest
    if is_kept:
        insort(store["rows"].setdefault(packed_key, []), [row[0], list(row[1])], key=_time_of)
        heappush(store["ages"], [row[0], packed_key])
    while store["ages"] and store["ages"][0][0] < oldest:
        _, expired_key = heappop(store["ages"])
        _drop(store["rows"], expired_key, 1)
    return is_kept


def pack(state: State) -> None:
    """Sort the rows by key and their timestamps, so that the state's bytes do not tell in which order they came.

    A sorted list is also a heap, which `add` needs.
    """
    for name in _SIDES:
        if name in state:
            store = state[name]
            store["ages"].sort()
            store["rows"] = dict(sorted(store["rows"].items()))


def _store(state: State, side: int, timestamp: int) -> dict[str, Any]:
    store: dict[str, Any] = state.setdefault(_SIDES[side], {"newest": timestamp, "rows": {}, "ages": []})
    store["newest"] = max(store["newest"], timestamp)
    return store


def _drop(rows: dict[bytes, list[Any]], packed_key: bytes, count: int) -> None:
    """Drop the oldest rows of a key."""
    left = rows[packed_key]
    del left[:count]
    if not left:
        del rows[packed_key]
