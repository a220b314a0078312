"""The rows of one input of a stream-stream join, which later rows of the other input may match."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any

from kestrel_sql.operators.joins.sides import SIDES
from kestrel_sql.operators.operator import Batch, State

_TIME, _VALUE = 0, 1
"""Indexes into a buffered row."""

_time_of = itemgetter(_TIME)


class BufferedRows:
    """The rows of an input by packed key, each a timestamp (ms) and values, by timestamp and arrival.

    A row of the batch has its index instead of values until `settle`.
    """

    __slots__ = ("_fresh", "_retention_ms", "_state", "_store", "side")

    def __init__(self, state: State, side: int, retention_ms: int) -> None:
        self._state, self.side, self._retention_ms = state, side, retention_ms
        self._store: dict[str, Any] | None = state.get(SIDES[side])
        self._fresh: list[list[Any]] = []

    @property
    def newest(self) -> int:
        """The greatest timestamp (ms) of all rows that the input has had; 0 without one."""
        return 0 if self._store is None else int(self._store["newest"])

    def within(self, packed_key: bytes, earliest: int, latest: int) -> Sequence[Sequence[Any]]:
        """Return the rows of one key whose timestamps are in a span (ms, inclusive)."""
        rows: list[list[Any]] | None = None if self._store is None else self._store["rows"].get(packed_key)
        if rows is None:
            return ()
        first = 0 if rows[0][_TIME] >= earliest else bisect_left(rows, earliest, key=_time_of)
        last = len(rows) if rows[-1][_TIME] <= latest else bisect_right(rows, latest, key=_time_of)
        return rows[first:last]

    def add(self, packed_key: bytes, timestamp: int, at: int) -> bool:
        """Buffer the row at an index of the batch, and drop the rows that are older than the retention.

        Returns whether the row itself is not older.
        """
        store = self._store
        if store is None:
            store = self._store = self._state[SIDES[self.side]] = {"newest": timestamp, "rows": {}, "ages": []}
        store["newest"] = newest = max(store["newest"], timestamp)
        oldest, ages, kept = newest - self._retention_ms + 1, store["ages"], store["rows"]
        is_kept: bool = timestamp >= oldest
        if is_kept:
            row = [timestamp, at]
            self._fresh.append(row)
            rows = kept.get(packed_key)
            if rows is None:
                kept[packed_key] = [row]
            elif rows[-1][_TIME] <= timestamp:
                rows.append(row)
            else:
                insort(rows, row, key=_time_of)
            heappush(ages, [timestamp, packed_key])
        while ages and ages[0][_TIME] < oldest:
            _, expired_key = heappop(ages)
            left = kept[expired_key]
            del left[0]
            if not left:
                del kept[expired_key]
        return is_kept

    def settle(self, rows: Batch) -> None:
        """Put values in the place of indices, and sort the rows by key and their timestamps.

        So the state's bytes do not tell in which order the rows came. A sorted list is also a heap, which `add` needs.
        """
        store = self._store
        if store is None:
            return
        oldest = store["newest"] - self._retention_ms + 1
        fresh = [row for row in self._fresh if row[_TIME] >= oldest]
        for row, values in zip(fresh, rows.values_at([row[_VALUE] for row in fresh]), strict=True):
            row[_VALUE] = values
        store["ages"].sort()
        store["rows"] = dict(sorted(store["rows"].items()))
