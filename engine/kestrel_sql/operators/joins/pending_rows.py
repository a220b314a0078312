"""The rows of a stream-stream join that wait for a match or for their window to close.

There are two lists: 1 for the left side of the join as built, 0 for the right side, which comes first at equal
timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, TypedDict

import msgspec

from kestrel_sql.operators.operator import Batch, Ref, State, Window

_KEY, _WINDOW, _VALUES = 0, 1, 2
"""Indexes into the waiting rows of a key and timestamp."""


class ClosedRows(msgspec.Struct, frozen=True):
    """The rows of one key, timestamp (ms) and list (its rank), in order of arrival."""

    rank: int
    key: Ref
    window: Window | None
    timestamp: int
    values: list[Ref]


class PendingRows:
    """Both lists, while a batch is processed: its rows are in them as their indices until `settle`."""

    __slots__ = ("_fresh", "_lists", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._lists: list[_Pending] = state.get("pending", [])
        self._fresh: dict[int, list[Any]] = {}

    def remember(self, rank: int, packed_key: bytes, timestamp: int, window: Window | None, at: int) -> None:
        """Append the row at an index of the batch to the list `rank`."""
        if not self._lists:
            self._lists = self._state["pending"] = [{"ages": [], "rows": {}}, {"ages": [], "rows": {}}]
        pending = self._lists[rank]
        times = pending["rows"].setdefault(packed_key, {})
        waiting = times.get(timestamp)
        if waiting is None:
            heappush(pending["ages"], [timestamp, packed_key])
            waiting = times[timestamp] = [at, None if window is None else list(window), []]
        waiting[_VALUES].append(at)
        self._fresh[id(waiting)] = waiting

    def forget(self, rank: int, packed_key: bytes, timestamp: int) -> None:
        """Remove all rows of one key and timestamp, because they found a match."""
        if self._lists:
            self._take(rank, packed_key, timestamp)

    def earliest(self) -> int | None:
        """Return the smallest timestamp (ms) of all rows, or None."""
        tops = [top for pending in self._lists if (top := _top(pending)) is not None]
        return min((top[0] for top in tops), default=None)

    def take_closed(self, limits: tuple[int, int]) -> Iterator[ClosedRows]:
        """Remove and yield the rows older than the limit (ms, exclusive) of their list, by timestamp, list and key."""
        while True:
            tops = [
                (top[0], rank, top[1])
                for rank, pending in enumerate(self._lists)
                if (top := _top(pending)) is not None and top[0] < limits[rank]
            ]
            if not tops:
                return
            timestamp, rank, packed_key = min(tops)
            heappop(self._lists[rank]["ages"])
            waiting = self._take(rank, packed_key, timestamp)
            assert waiting is not None  # noqa: S101 - `_top` has found it
            key, window, values = waiting
            yield ClosedRows(rank, key, None if window is None else (window[0], window[1]), timestamp, values)

    def settle(self, rows: Batch) -> None:
        """Put keys and values in the place of indices, and sort the rows by key and timestamp.

        So the state's bytes do not tell in which order the rows came and went. A sorted list is also a heap, which
        `remember` needs.
        """
        fresh = [*self._fresh.values()]
        places = [
            (waiting[_VALUES], place)
            for waiting in fresh
            for place, value in enumerate(waiting[_VALUES])
            if isinstance(value, int)
        ]
        for (values, place), row in zip(places, rows.values_at([each[at] for each, at in places]), strict=True):
            values[place] = row
        fresh = [waiting for waiting in fresh if isinstance(waiting[_KEY], int)]
        for waiting, key in zip(fresh, rows.keys_at([waiting[_KEY] for waiting in fresh]), strict=True):
            waiting[_KEY] = key
        for pending in self._lists:
            kept = {packed_key: dict(sorted(times.items())) for packed_key, times in sorted(pending["rows"].items())}
            pending["ages"] = sorted(
                [timestamp, packed_key] for packed_key, times in kept.items() for timestamp in times
            )
            pending["rows"] = kept

    def _take(self, rank: int, packed_key: bytes, timestamp: int) -> list[Any] | None:
        rows = self._lists[rank]["rows"]
        times = rows.get(packed_key)
        if times is None:
            return None
        taken: list[Any] | None = times.pop(timestamp, None)
        if not times:
            del rows[packed_key]
        if taken is not None:
            self._fresh.pop(id(taken), None)
        return taken


class _Pending(TypedDict):
    ages: list[list[Any]]
    rows: dict[bytes, dict[int, list[Any]]]


def _top(pending: _Pending) -> list[Any] | None:
    """Return the oldest entry; drop entries whose rows are gone."""
    ages = pending["ages"]
    while ages and ages[0][0] not in pending["rows"].get(ages[0][1], {}):
        heappop(ages)
    return ages[0] if ages else None
