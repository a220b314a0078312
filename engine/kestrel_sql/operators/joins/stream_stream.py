"""The operator that joins two streams within a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from kestrel_sql.operators import late_rows
from kestrel_sql.operators.joins.buffered_rows import BufferedRows
from kestrel_sql.operators.joins.pending_rows import PendingRows
from kestrel_sql.operators.joins.sides import SIDES, outer_sides, parts_of
from kestrel_sql.operators.operator import MOST_OUTPUTS, Batch, KeyBytes, Ref, Results, Scope, State, StateEntry, Window
from kestrel_sql.operators.row_keys import pack_keys, restored_row, split_key, with_window_size
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.time_units import DAY_MS

_DEFAULT_GRACE_MS = DAY_MS

_LEFT, _RIGHT = 0, 1

_PARTS = ("failed", "time", "left", "right", "pending")
"""The parts of a state, in the order in which it is stored."""


class StreamStreamJoin(msgspec.Struct, frozen=True, kw_only=True):
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
    window_size_ms: int | None = None

    @property
    def parts(self) -> Sequence[int]:
        """The sides of a result."""
        return parts_of(self.join_type)

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Emit for each row the pending rows whose window has closed, then its matches, or in an outer join the row."""
        windows = with_window_size(rows.windows, self.window_size_ms)
        keys = pack_keys(rows.keys(self.key_bytes), windows)
        joined, now = _Joined(self, rows, windows, state), state.get("time")
        for at, (side, key, time, present) in enumerate(zip(rows.sides, keys, rows.times, rows.present, strict=True)):
            if now is None or time > now:
                now = state["time"] = time
            if present:
                joined.take(at, side, key, time, now)
                if len(joined.results.causes) >= MOST_OUTPUTS:
                    yield joined.taken()
        joined.settle()
        yield joined.taken()

    def rank(self, side: int) -> int:
        """The list of pending rows of a side: 1 for the left side of the join as built, 0 for the right side."""
        return int(side == (_RIGHT if self.join_type is JoinType.RIGHT else _LEFT))

    def bounds(self, side: int) -> tuple[int, int]:
        """How far (ms) before and after a row of this side its matches may lie."""
        return (self.before_ms, self.after_ms) if self.rank(side) else (self.after_ms, self.before_ms)

    @property
    def retention_ms(self) -> int:
        """How long (ms) rows stay buffered."""
        grace = max(_DEFAULT_GRACE_MS - 2 * self.before_ms, 0) if self.grace_ms is None else self.grace_ms
        return self.before_ms + self.after_ms + grace

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the buffered rows of both sides, and the results that wait for a match."""
        for side, part in enumerate(SIDES):
            for packed_key, rows in state.get(part, {}).get("rows", {}).items():
                key, window = split_key(packed_key, windowed[side])
                for timestamp, value in rows:
                    row = restored_row(value)
                    yield StateEntry(part=part, side=side, key=key, value=row, window=window, timestamp=timestamp)
        for rank, pending in enumerate(state.get("pending", [])):
            side = rank if self.join_type is JoinType.RIGHT else 1 - rank
            for packed_key, times in pending["rows"].items():
                key, window = split_key(packed_key, windowed[side])
                for timestamp, (_, _, values) in times.items():
                    for row in map(restored_row, values):
                        yield StateEntry(
                            part="pending", side=side, key=key, value=row, window=window, timestamp=timestamp
                        )


@dataclass(slots=True)
class _Joined:
    """A join while a batch is processed.

    Attributes:
        join: the operator.
        rows: the rows of the batch.
        windows: the windows of their keys.
        state: the state of the join.
        buffers: the rows of both inputs that later rows may match.
        pending: the rows that wait for a match or for their window to close.
        results: the outputs that are not taken yet.
    """

    join: StreamStreamJoin
    rows: Batch
    windows: Sequence[Window | None] | None
    state: State
    buffers: tuple[BufferedRows, BufferedRows] = field(init=False)
    pending: PendingRows = field(init=False)
    results: Results = field(init=False)
    _outer: tuple[bool, bool] = field(init=False)
    _bounds: tuple[tuple[int, int], tuple[int, int]] = field(init=False)
    _ranks: tuple[int, int] = field(init=False)
    _delays: bool = field(init=False)

    def __post_init__(self) -> None:
        join, retention = self.join, self.join.retention_ms
        self.buffers = BufferedRows(self.state, _LEFT, retention), BufferedRows(self.state, _RIGHT, retention)
        self.pending = PendingRows(self.state)
        self.results = self._no_results()
        self._outer = outer_sides(join.join_type)
        # Only an outer join with a grace period has rows that wait.
        self._delays = join.grace_ms is not None and any(self._outer)
        self._bounds = join.bounds(_LEFT), join.bounds(_RIGHT)
        self._ranks = join.rank(_LEFT), join.rank(_RIGHT)

    def take(self, at: int, side: int, key: bytes | None, time: int, now: int) -> None:
        """Process a row of the batch that has a value; `now` is the stream time (ms)."""
        if key is None:
            if self._outer[side]:
                self._add(at, time, None, side, at, None)
            return
        before, after = self._bounds[side]
        if self._delays and time == now:
            self._close(at, now - (self.join.grace_ms or 0), after)
        matches = self.buffers[1 - side].within(key, max(0, time - before), time + after)
        for timestamp, value in matches:
            if self._delays:
                self.pending.forget(self._ranks[1 - side], key, timestamp)
            self._add(at, max(time, timestamp), at, side, at, value)
        if not matches and self._outer[side]:
            if not self._delays or time + after < now:
                self._add(at, time, at, side, at, None)
            else:
                window = None if self.windows is None else self.windows[at]
                self.pending.remember(self._ranks[side], key, time, window, at)
        if not self.buffers[side].add(key, time, at):
            self._note_late(at, side, time)

    def _close(self, at: int, closed: int, after: int) -> None:
        """Emit the pending rows whose window has closed; only a row at stream time triggers this.

        Args:
            at: the row.
            closed: the end (ms, exclusive) of the windows that have closed.
            after: how far (ms) after the row its matches may lie.
        """
        oldest = self.pending.earliest()
        if oldest is None or oldest + after >= closed:
            return
        for rows in self.pending.take_closed((closed - self.join.before_ms, closed - self.join.after_ms)):
            side = self._ranks.index(rows.rank)
            for value in rows.values:
                self._add(at, rows.timestamp, rows.key, side, value, None)
                if self.results.windows is not None:
                    self.results.windows[-1] = rows.window

    def _add(self, cause: int, time: int, key: Ref, side: int, own: Ref, other: Ref) -> None:
        results = self.results
        results.causes.append(cause)
        results.times.append(time)
        results.keys.append(key)
        results.values[side].append(own)
        results.values[1 - side].append(other)
        if results.windows is not None and self.windows is not None:
            results.windows.append(self.windows[cause])

    def _note_late(self, at: int, side: int, time: int) -> None:
        """Note a row that later ones of the other input cannot meet."""
        before, after = self._bounds[side]
        grace = self.join.retention_ms - self.join.before_ms - self.join.after_ms
        late_rows.note(self.state, time, (time - before, time + after), grace, self.buffers[side].newest)
        late_rows.note_row(self.state, at)

    def _no_results(self) -> Results:
        results = Results.of(_LEFT, _RIGHT)
        if self.windows is not None:
            results.windows = []
        return results

    def taken(self) -> Results:
        """Take the outputs."""
        found, self.results = self.results, self._no_results()
        return found

    def settle(self) -> None:
        """Put the keys and values of the batch into the state."""
        for buffer in self.buffers:
            buffer.settle(self.rows)
        self.pending.settle(self.rows)
        for name in _PARTS:
            if name in self.state:
                self.state[name] = self.state.pop(name)
