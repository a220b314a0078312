"""The operator of EMIT FINAL in older plans, which holds each windowed result back until its window closes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import ClassVar

import msgspec

from kestrel_sql.operators.operator import Batch, KeyBytes, Results, Scope, State, StateEntry, Window
from kestrel_sql.operators.row_keys import pack_keys, restored_row, unpack_key

_KEY, _VALUE = 0, 2
"""Indexes into a stored result."""


class TableSuppress(msgspec.Struct, frozen=True, kw_only=True):
    """Emit the last result of each window once stream time reaches the end of the window plus `grace_ms` (rules P6.5).

    A result keeps its own timestamp. For sessions `grace_ms` is gap + grace, because a session can grow for that long.
    Tombstones are dropped, so a session that was merged into another is never emitted.
    """

    scope: ClassVar[Scope] = Scope.TASK
    parts: ClassVar[Sequence[int]] = (0,)

    key_bytes: KeyBytes
    grace_ms: int

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Store the rows, and at each emit the results of windows that it closes by end, then key."""
        keys, windows = rows.keys(self.key_bytes), rows.windows or [None] * len(rows.times)
        stored, results, bounds = state.get("rows", {}), Results.of(0), list[Window | None]()
        names = pack_keys(keys, windows)
        for at, (name, window, time, present) in enumerate(zip(names, windows, rows.times, rows.present, strict=True)):
            if name is None or window is None:
                continue
            now = state["time"] = max(state.get("time", time), time)
            stored, ends = state.setdefault("rows", {}), state.setdefault("ends", [])
            if name not in stored:
                heappush(ends, [window[1], name])
            stored[name] = [at, [*window], at if present else None, time]
            while ends and ends[0][0] <= now - self.grace_ms:
                key, (start, end), value, timestamp = stored.pop(heappop(ends)[1])
                if value is not None:
                    results.causes.append(at)
                    results.times.append(timestamp)
                    results.keys.append(key)
                    results.values[0].append(value)
                    bounds.append((start, end))
        fresh = [
            stored[name] for name in dict.fromkeys(names) if name in stored and isinstance(stored[name][_KEY], int)
        ]
        for place, of in ((_KEY, rows.keys_at), (_VALUE, rows.values_at)):
            found = [entry for entry in fresh if entry[place] is not None]
            for entry, values in zip(found, of([entry[place] for entry in found]), strict=True):
                entry[place] = values
        results.windows = bounds
        yield results

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the results that are held back."""
        for packed_key, (_, (start, end), value, timestamp) in state.get("rows", {}).items():
            key, _ = unpack_key(packed_key)
            yield StateEntry(
                part="rows", side=0, key=key, value=restored_row(value), window=(start, end), timestamp=timestamp
            )
