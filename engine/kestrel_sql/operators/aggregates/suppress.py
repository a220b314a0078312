"""The old form of EMIT FINAL: a buffer that holds each windowed result back until its window closes."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

from kestrel_sql.operators.operator import KeyBytes, Output, Row, Scope, State
from kestrel_sql.operators.row_keys import identity, stored_row


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSuppress:
    """Emit the last result of each window, with its own timestamp, once stream time >= window end + `grace_ms` (plan-format.md 6.5).

    For sessions `grace_ms` is gap + grace, as a session can grow for that long. Tombstones are swallowed, so
    that a session that was merged away is never seen.
    """

    scope: ClassVar[Scope] = Scope.TASK

    key_bytes: KeyBytes
    grace_ms: int

    def process(self, row: Row, state: State) -> list[Output]:
        """Keep the row, then give the results of closed windows by end, then key."""
        if row.key is None or row.window is None:
            return []
        time: int = max(state.get("time", row.timestamp), row.timestamp)
        state["time"] = time
        rows = state.setdefault("rows", {})
        ends = state.setdefault("ends", [])
        name = identity(self.key_bytes, row.key, row.window)
        if name not in rows:
            heappush(ends, [row.window[1], name])
        rows[name] = [list(row.key), list(row.window), None if row.value is None else list(row.value), row.timestamp]
        outputs = []
        while ends and ends[0][0] <= time - self.grace_ms:
            key, (start, end), value, timestamp = rows.pop(heappop(ends)[1])
            if value is not None:
                outputs.append(Output(tuple(key), stored_row(value), timestamp, window=(start, end)))
        return outputs
