"""The rows of a stream-stream join that wait for a match or for their window to close.

There are two lists: 1 for the left side of the join as built, 0 for the right side, which comes first at equal
timestamps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from kestrel_sql.operators.operator import Key, State, Value, Window
from tests.engine.operators.row_forms.row_operator import Row


@dataclass(frozen=True, slots=True)
class PendingRows:
    """The rows of one key, timestamp (ms) and list, in order of arrival; `rank` is the list.

    `packed_key` is the key and its window as `pack_key` writes them.
    """

    rank: int
    packed_key: bytes
    key: Key
    window: Window | None
    timestamp: int
    values: tuple[Value, ...]


def _prepare(state: State) -> list[dict[str, Any]]:
    """Return both lists, which are made for the first row that waits."""
    lists: list[dict[str, Any]] = state.setdefault("pending", [{"ages": [], "rows": {}}, {"ages": [], "rows": {}}])
    return lists


def remember(state: State, rank: int, packed_key: bytes, row: Row) -> None:
    """Append a row to the list `rank`; `packed_key` is its key and window as `pack_key` writes them."""
    pending = _prepare(state)[rank]
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
        rows = _take(lists[rank]["rows"], packed_key, timestamp) or ((), None, ())
        closed.append(_pending(rank, packed_key, timestamp, rows))


def pack(state: State) -> None:
    """Sort the rows by key and timestamp, so that the state's bytes do not tell in which order they came and went.

    A sorted list is also a heap, which `remember` needs.
    """
    for pending in state.get("pending", []):
        rows = {packed_key: dict(sorted(times.items())) for packed_key, times in sorted(pending["rows"].items())}
        pending["ages"] = sorted([timestamp, packed_key] for packed_key, times in rows.items() for timestamp in times)
        pending["rows"] = rows


def _pending(rank: int, packed_key: bytes, timestamp: int, rows: Sequence[Any]) -> PendingRows:
    key, window, values = rows
    bounds = None if window is None else (window[0], window[1])
    return PendingRows(rank, packed_key, tuple(key), bounds, timestamp, tuple(tuple(value) for value in values))


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
