"""Rows of a stream-stream join that wait for a match or for the end of their time.

Rows wait on two lists: 1 for the left side of the join as built, 0 for the other, which goes first where timestamps are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from kestrel_sql.operators.operator import Key, Row, State, Value, Window


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows of one key, timestamp (ms) and list, in order of arrival."""

    rank: int
    key: Key
    window: Window | None
    timestamp: int
    values: tuple[Value, ...]


def remember(state: State, rank: int, name: bytes, row: Row) -> None:
    """Let the row wait; `name` is its identity."""
    waiting = state.setdefault("pending", [{"ages": [], "rows": {}}, {"ages": [], "rows": {}}])[rank]
    times = waiting["rows"].setdefault(name, {})
    if row.timestamp not in times:
        heappush(waiting["ages"], [row.timestamp, name])
        times[row.timestamp] = [list(row.key or ()), None if row.window is None else list(row.window), []]
    times[row.timestamp][2].append(list(row.value or ()))


def forget(state: State, rank: int, name: bytes, timestamp: int) -> None:
    """Remove all rows of one identity and timestamp: they have met a partner."""
    if "pending" in state:
        _take(state["pending"][rank]["rows"], name, timestamp)


def earliest(state: State) -> int | None:
    """Give the smallest timestamp that waits, or None."""
    tops = [top for waiting in state.get("pending", []) if (top := _top(waiting)) is not None]
    return min((top[0] for top in tops), default=None)


def take_closed(state: State, limits: tuple[int, int]) -> list[Waiting]:
    """Take out the rows older than the limit (ms, exclusive) of their list, by timestamp, list and key."""
    closed: list[Waiting] = []
    lists = state.get("pending", [])
    while True:
        tops = [
            (top[0], rank, top[1])
            for rank, waiting in enumerate(lists)
            if (top := _top(waiting)) is not None and top[0] < limits[rank]
        ]
        if not tops:
            return closed
        timestamp, rank, name = min(tops)
        heappop(lists[rank]["ages"])
        key, window, values = _take(lists[rank]["rows"], name, timestamp) or ((), None, ())
        bounds = None if window is None else (window[0], window[1])
        closed.append(Waiting(rank, tuple(key), bounds, timestamp, tuple(tuple(value) for value in values)))


def _top(waiting: dict[str, Any]) -> list[Any] | None:
    """Give the oldest entry; entries whose rows are gone are removed on the way."""
    ages: list[list[Any]] = waiting["ages"]
    while ages and ages[0][0] not in waiting["rows"].get(ages[0][1], {}):
        heappop(ages)
    return ages[0] if ages else None


def _take(rows: dict[bytes, dict[int, list[Any]]], name: bytes, timestamp: int) -> list[Any] | None:
    times = rows.get(name)
    if times is None:
        return None
    found = times.pop(timestamp, None)
    if not times:
        del rows[name]
    return found
