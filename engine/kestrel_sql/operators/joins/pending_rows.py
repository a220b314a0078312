"""The rows of a stream-stream join that wait for a match or for their window to close.

There are two lists: 1 for the left side of the join as built, 0 for the right side, which comes first at equal
timestamps.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from kestrel_sql.operators.operator import Key, Row, State, Value, Window


@dataclass(frozen=True, slots=True)
class PendingRows:
    """The rows of one key, timestamp (ms) and list, in order of arrival; `rank` is the list."""

    rank: int
    key: Key
    window: Window | None
    timestamp: int
    values: tuple[Value, ...]


def remember(state: State, rank: int, packed_key: bytes, row: Row) -> None:
    """Append a row to the list `rank`; `packed_key` is its key and window as `pack_key` writes them."""
    pending = state.setdefault("pending", [{"ages": [], "rows": {}}, {"ages": [], "rows": {}}])[rank]
    times = pending["rows"].setdefault(packed_key, {})
    if row.timestamp not in times:
        heappush(pending["ages"], [row.timestamp, packed_key])
        times[row.timestamp] = [list(row.key or ()), None if row.window is None else list(row.window), []]
    times[row.timestamp][2].append(list(row.value or ()))


def forget(state: State, rank: int, packed_key: bytes, timestamp: int) -> None:
    """Remove all rows of one key and timestamp, because they found a match."""
    if "pending" in state:
        _take(state["pending"][rank]["rows"], packed_key, timestamp)


def earliest(state: State) -> int | None:
    """Return the smallest timestamp (ms) of all pending rows, or None."""
    tops = [top for pending in state.get("pending", []) if (top := _top(pending)) is not None]
    return min((top[0] for top in tops), default=None)


def take_closed(state: State, limits: tuple[int, int]) -> list[PendingRows]:
    """Remove and return the rows older than the limit (ms, exclusive) of their list, by timestamp, list and key."""
    closed: list[PendingRows] = []
    lists = state.get("pending", [])
    while True:
        tops = [
            (top[0], rank, top[1])
            for rank, pending in enumerate(lists)
            if (top := _top(pending)) is not None and top[0] < limits[rank]
        ]
        if not tops:
            return closed
        timestamp, rank, packed_key = min(tops)
        heappop(lists[rank]["ages"])
        key, window, values = _take(lists[rank]["rows"], packed_key, timestamp) or ((), None, ())
        bounds = None if window is None else (window[0], window[1])
        closed.append(PendingRows(rank, tuple(key), bounds, timestamp, tuple(tuple(value) for value in values)))


def _top(pending: dict[str, Any]) -> list[Any] | None:
    """Return the oldest entry; drop entries whose rows are gone."""
    ages: list[list[Any]] = pending["ages"]
    while ages and ages[0][0] not in pending["rows"].get(ages[0][1], {}):
        heappop(ages)
    return ages[0] if ages else None


def _take(rows: dict[bytes, dict[int, list[Any]]], packed_key: bytes, timestamp: int) -> list[Any] | None:
    times = rows.get(packed_key)
    if times is None:
        return None
    taken = times.pop(timestamp, None)
    if not times:
        del rows[packed_key]
    return taken
