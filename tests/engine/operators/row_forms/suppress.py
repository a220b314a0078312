"""The operator of EMIT FINAL in older plans, which holds each windowed result back until its window closes."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

from kestrel_sql.operators.operator import KeyBytes, Scope, State
from kestrel_sql.operators.row_keys import pack_key, restored_row
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSuppress(RowOperator):
    """Emit the last result of each window once stream time reaches the end of the window plus `grace_ms` (rules P6.5).

    A result keeps its own timestamp. For sessions `grace_ms` is gap + grace, because a session can grow for that long.
    Tombstones are dropped, so a session that was merged into another is never emitted.
    """

    scope: ClassVar[Scope] = Scope.TASK

    key_bytes: KeyBytes
    grace_ms: int

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Store the row, then emit the results of closed windows by end, then key."""
        if row.key is None or row.window is None:
            return []
        time: int = max(state.get("time", row.timestamp), row.timestamp)
        state["time"] = time
        rows = state.setdefault("rows", {})
        ends = state.setdefault("ends", [])
        packed_key = pack_key(self.key_bytes, row.key, row.window)
        if packed_key not in rows:
            heappush(ends, [row.window[1], packed_key])
        rows[packed_key] = [
            list(row.key),
            list(row.window),
            None if row.value is None else list(row.value),
            row.timestamp,
        ]
        outputs = []
        while ends and ends[0][0] <= time - self.grace_ms:
            key, (start, end), value, timestamp = rows.pop(heappop(ends)[1])
            if value is not None:
                outputs.append(Output(tuple(key), restored_row(value), timestamp, window=(start, end)))
        return outputs
