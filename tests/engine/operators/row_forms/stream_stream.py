"""The operator that joins two streams within a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from kestrel_sql.operators import late_rows
from kestrel_sql.operators.joins.sides import outer_sides
from kestrel_sql.operators.operator import KeyBytes, Scope, State, Value
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.time_units import DAY_MS
from tests.engine.operators.row_forms import buffered_rows as buffered
from tests.engine.operators.row_forms import pending_rows as pending
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator, pack_key
from tests.engine.operators.row_forms.rows import pair, with_window_size

_DEFAULT_GRACE_MS = DAY_MS

_PARTS = ("failed", "time", "left", "right", "pending")
"""The parts of a state, in the order in which it is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStreamJoin(RowOperator):
    """Join rows of equal key whose timestamps are close enough; all times are in ms (rules O12).

    A left row at t matches right rows in [t - before, t + after]. A RIGHT join is built as "right LEFT JOIN left" with
    the same bounds, so there a right row at t matches left rows in [t - before, t + after].

    Without grace period (`grace_ms` None) a row without a match is emitted at once and never retracted. If the sources
    have time windows, `window_size_ms` is the window size of the result's key; other windows match if both bounds do.
    """

    scope: ClassVar[Scope] = Scope.TASK

    join_type: JoinType
    key_bytes: KeyBytes
    before_ms: int
    after_ms: int
    grace_ms: int | None
    left_width: int
    right_width: int
    placeholder: bool = False
    window_size_ms: int | None = None

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Emit the pending rows whose window has closed, then the row's matches or, in an outer join, the row alone."""
        row = with_window_size(row, self.window_size_ms)
        state["time"] = max(state.get("time", row.timestamp), row.timestamp)
        outer = outer_sides(self.join_type)[row.side]
        if row.value is None or (row.key is None and not outer):
            return []
        if row.key is None:
            return [self._alone(row.side, row.key, row.value, row)]
        packed_key = pack_key(self.key_bytes, row.key, row.window)
        outputs = self._flush(row, state)
        matched = False
        for timestamp, value in self._partners(packed_key, row, state):
            matched = True
            pending.forget(state, self.rank(1 - row.side), packed_key, timestamp)
            outputs.append(
                Output(
                    row.key, self._pair(row.side, row.value, value), max(row.timestamp, timestamp), window=row.window
                )
            )
        if outer and not matched:
            outputs += self._unmatched(packed_key, row, row.value, state)
        if not buffered.add(state, row.side, packed_key, [row.timestamp, row.value], self.retention_ms):
            self.note_late(state, row.side, row.timestamp, buffered.newest(state, row.side) or 0)
        return outputs

    def note_late(self, state: State, side: int, timestamp: int, newest: int, count: int = 1) -> None:
        """Note rows that later ones of the other input cannot meet.

        `timestamp` and `newest` (ms) are the timestamp of the first of them, and the greatest of its input before it.
        """
        before, after = self.bounds(side)
        grace = self.retention_ms - self.before_ms - self.after_ms
        late_rows.note(state, timestamp, (timestamp - before, timestamp + after), grace, newest, count)

    def rank(self, side: int) -> int:
        """The list of pending rows of a side: 1 for the left side of the join as built, 0 for the right side."""
        return int(side == (1 if self.join_type is JoinType.RIGHT else 0))

    def bounds(self, side: int) -> tuple[int, int]:
        """How far (ms) before and after a row of this side its matches may lie."""
        return (self.before_ms, self.after_ms) if self.rank(side) else (self.after_ms, self.before_ms)

    def limits(self, time: int) -> tuple[int, int]:
        """The timestamps (ms, exclusive) before which the rows of each list wait no longer at a stream time (ms)."""
        grace = self.grace_ms or 0
        return time - self.before_ms - grace, time - self.after_ms - grace

    def _pair(self, side: int, own: Value, other: Value | None) -> Value:
        left, right = (own, other) if side == 0 else (other, own)
        widths = (self.left_width, self.right_width)
        return pair(left, right, widths, right_first=self.join_type is JoinType.RIGHT, placeholder=self.placeholder)

    def _alone(self, side: int, key: Any, value: Value, at: Row) -> Output:
        return Output(key, self._pair(side, value, None), at.timestamp, window=at.window)

    def _partners(self, packed_key: bytes, row: Row, state: State) -> Iterator[tuple[int, Value]]:
        before, after = self.bounds(row.side)
        earliest = max(0, row.timestamp - before)
        for timestamp, value in buffered.within(state, 1 - row.side, packed_key, earliest, row.timestamp + after):
            yield timestamp, tuple(value)

    def _unmatched(self, packed_key: bytes, row: Row, value: Value, state: State) -> list[Output]:
        if self.grace_ms is None or row.timestamp + self.bounds(row.side)[1] < state["time"]:
            return [self._alone(row.side, row.key, value, row)]
        pending.remember(state, self.rank(row.side), packed_key, row)
        return []

    def _flush(self, row: Row, state: State) -> list[Output]:
        """Emit the pending rows whose window has closed; only a row at stream time triggers this."""
        grace, time = self.grace_ms, state["time"]
        oldest = pending.earliest(state)
        if grace is None or oldest is None or row.timestamp < time or oldest + self.bounds(row.side)[1] + grace >= time:
            return []
        outputs = []
        for rows in pending.take_closed(state, self.limits(time)):
            side = 1 - rows.rank if self.rank(0) else rows.rank
            outputs += [
                Output(rows.key, self._pair(side, value, None), rows.timestamp, window=rows.window)
                for value in rows.values
            ]
        return outputs

    def pack(self, state: State) -> None:
        """Bring a state into the order in which it is stored: that of its keys and times, not that of its changes."""
        buffered.pack(state)
        pending.pack(state)
        for name in _PARTS:
            if name in state:
                state[name] = state.pop(name)

    @property
    def retention_ms(self) -> int:
        """How long (ms) rows stay buffered."""
        grace = max(_DEFAULT_GRACE_MS - 2 * self.before_ms, 0) if self.grace_ms is None else self.grace_ms
        return self.before_ms + self.after_ms + grace
