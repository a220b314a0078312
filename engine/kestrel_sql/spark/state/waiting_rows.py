"""The rows of an outer stream-stream join that wait for a match or for their window to close, over whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

import numpy as np
import pyarrow as pa

from kestrel_sql.operators.joins import pending_rows as pending
from kestrel_sql.operators.joins.joined_row import outer_sides
from kestrel_sql.operators.joins.stream_stream import StreamStreamJoin
from kestrel_sql.operators.number_columns import Flags, Numbers
from kestrel_sql.operators.operator import Key, Row, State, Value
from kestrel_sql.spark.io.columns import to_list, to_rows
from kestrel_sql.spark.state.interval_matches import Arrived, Meetable
from kestrel_sql.spark.state.table_versions import KeyedRows


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row of the state that may close; its values, and its list, key and timestamp (ms) as `PendingRows` has them."""

    rank: int
    packed_key: bytes
    key: Key
    timestamp: int
    value: Value


@dataclass(frozen=True, slots=True)
class Waiting:
    """All rows of a batch, and behind them the rows of the state that may close in it.

    Attributes:
        operator: the join.
        keyed: the rows of the batch.
        arrived: what decides about them.
        meetable: the rows that others may meet.
        stored: the rows of the state.
        sides: the input of each row.
        times: its timestamp (ms).
        closes: the row of the batch that closes its window, if it waits; the number of rows without one.
        waits: whether it waits or has waited.
        indices: its index in `meetable`; one too many if it is not there.
        met: for each row of `meetable` the first row of the batch that meets it; the number of rows without one.
        queues: if windows do not close together, the rows of each list that wait or have waited as heaps of timestamp
            (ms) and row; `closes` is then known only for rows that have arrived.
    """

    operator: StreamStreamJoin
    keyed: KeyedRows
    arrived: Arrived
    meetable: Meetable
    stored: Sequence[StoredRow]
    sides: Numbers
    times: Numbers
    closes: Numbers
    waits: Flags
    indices: Numbers
    met: Numbers
    queues: tuple[list[tuple[int, int]], list[tuple[int, int]]] | None = None

    def advance(self, start: int, end: int, causes: Numbers, met: Numbers) -> tuple[Numbers, Numbers]:
        """Let the next rows of the batch arrive; each of `causes` meets one of `met`.

        Returns:
            The rows that have no match and do not wait, and the rows that wait no longer, in the order of the outputs.
        """
        arrived, operator = self.arrived, self.operator
        sides = arrived.sides[start:end]
        lonely = np.array(outer_sides(operator.join_type))[sides] & arrived.has_value[start:end]
        lonely[causes - start] = False
        if not _delays(operator):
            return start + np.flatnonzero(lonely), np.zeros(0, np.int64)
        np.minimum.at(self.met, met, causes)
        in_time = arrived.times[start:end] + _after(operator)[sides] >= arrived.now[start:end]
        self.waits[start:end] = lonely & arrived.stores[start:end] & in_time
        if self.queues is not None:
            self._close_in_turn(self.queues, start, end)
        return start + np.flatnonzero(lonely & ~self.waits[start:end]), self._closed(start, end)

    def _close_in_turn(self, queues: Sequence[list[tuple[int, int]]], start: int, end: int) -> None:
        """Find the rows that the next rows of the batch close, which depends on all rows that wait."""
        closing = _closing(self.arrived)
        for cause in (start + np.flatnonzero(self.waits[start:end] | closing[start:end])).tolist():
            rank = self.operator.rank(int(self.sides[cause]))
            limits = self.operator.limits(int(self.arrived.now[cause]))
            if closing[cause] and self._oldest(queues, cause) < limits[rank]:
                for queue, limit in zip(queues, limits, strict=True):
                    while queue and queue[0][0] < limit:
                        self.closes[heappop(queue)[1]] = cause
            if self.waits[cause]:
                heappush(queues[rank], (int(self.times[cause]), cause))

    def _oldest(self, queues: Sequence[list[tuple[int, int]]], cause: int) -> float:
        """The smallest timestamp (ms) of the rows that still wait when a row arrives."""
        for queue in queues:
            while queue and self.met[self.indices[queue[0][1]]] < cause:
                heappop(queue)
        return min((queue[0][0] for queue in queues if queue), default=inf)

    def _closed(self, start: int, end: int) -> Numbers:
        """The rows whose windows those of a range of the batch close, by timestamp, list, key and arrival."""
        rows = np.flatnonzero(
            self.waits & (self.closes >= start) & (self.closes < end) & (self.met[self.indices] >= self.closes)
        )
        names = [self._name(row) for row in rows.tolist()]
        numbers = {name: number for number, name in enumerate(sorted(set(names)))}
        keys = np.array([numbers[name] for name in names], np.int64)
        ranks = np.array([self.operator.rank(side) for side in (0, 1)])[self.sides[rows]]
        size = len(self.arrived.times)
        arrivals = np.where(rows < size, rows, rows - len(self.times))
        found: Numbers = rows[np.lexsort((arrivals, keys, ranks, self.times[rows], self.closes[rows]))]
        return found

    def _name(self, row: int) -> bytes:
        size = len(self.arrived.times)
        return self.keyed.names[self.keyed.groups[row]] or b"" if row < size else self.stored[row - size].packed_key

    def update(self, state: State) -> None:
        """Remove the rows of the state that wait no longer, and add those of the batch that still do."""
        if not _delays(self.operator):
            return
        size, groups = len(self.arrived.times), len(self.keyed.names)
        for row in np.flatnonzero(self.closes[size:] < size).tolist():
            stored = self.stored[row]
            pending.forget(state, stored.rank, stored.packed_key, stored.timestamp)
        for at in np.flatnonzero((self.met[:-1] < size) & (self.meetable.arrivals < 0)).tolist():
            side, group = divmod(int(self.meetable.buckets[at]), groups)
            name = self.keyed.names[group] or b""
            pending.forget(state, self.operator.rank(side), name, int(self.meetable.times[at]))
        if self.waits[:size].any():
            pending.prepare(state)
        still = self.waits[:size] & (self.closes[:size] == size) & (self.met[self.indices[:size]] == size)
        for number, rows in enumerate(self.keyed.sides):
            own = pa.array(np.flatnonzero(still[rows.at]))
            at = rows.at[own]
            keys = zip(*(to_list(column.take(pa.array(at))) for column in self.keyed.keys), strict=True)
            values = to_rows(rows.fields["v"].take(own))
            for row, key, value in zip(at.tolist(), keys, values, strict=True):
                given = Row(number, key, value, int(self.arrived.times[row]))
                pending.remember(state, self.operator.rank(number), self._name(row), given)


def waiting_rows(
    operator: StreamStreamJoin, keyed: KeyedRows, arrived: Arrived, meetable: Meetable, state: State
) -> Waiting:
    """Return the rows that may wait before the first row of a batch arrives."""
    size, groups = len(arrived.times), len(keyed.names)
    stored = _stored(operator, int(arrived.now[-1]), state) if _delays(operator) else []
    side_of = {operator.rank(side): side for side in (0, 1)}
    sides = np.array([side_of[row.rank] for row in stored], np.int64)
    times = np.array([row.timestamp for row in stored], np.int64)
    numbers = {name: number for number, name in enumerate(keyed.names) if name is not None} if stored else {}
    own_groups = np.array([numbers.get(row.packed_key, -1) for row in stored], np.int64)
    # All rows of a key and timestamp meet the same rows, so that the first one stands for all.
    first, counts = meetable.spans(sides * groups + own_groups, times, times)
    absent = (counts == 0) | (own_groups < 0)
    indices = np.full(size, len(meetable.order))
    known = meetable.arrivals >= 0
    indices[meetable.arrivals[known]] = np.flatnonzero(known)
    all_sides, all_times = np.concatenate([arrived.sides, sides]), np.concatenate([arrived.times, times])
    together = _closes_together(operator)
    return Waiting(
        operator=operator,
        keyed=keyed,
        arrived=arrived,
        meetable=meetable,
        stored=stored,
        sides=all_sides,
        times=all_times,
        closes=_closes(operator, arrived, all_sides, all_times) if together else np.full(len(all_times), size),
        waits=np.arange(size + len(stored)) >= size,
        indices=np.concatenate([indices, np.where(absent, len(meetable.order), first)]),
        met=np.full(len(meetable.order) + 1, size),
        queues=None if together else _queues(stored, size),
    )


def _queues(stored: Sequence[StoredRow], size: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    rows = [sorted((row.timestamp, size + at) for at, row in enumerate(stored) if row.rank == rank) for rank in (0, 1)]
    return rows[0], rows[1]


def _closes_together(operator: StreamStreamJoin) -> bool:
    """Whether any row at stream time closes all windows that are over.

    Otherwise rows wait longer for one input than for the other, and which windows close depends on the input of the
    row and on all rows that wait.
    """
    outer = outer_sides(operator.join_type)
    longest = max(operator.before_ms, operator.after_ms)
    return not _delays(operator) or all(_after(operator)[side] == longest for side in (0, 1) if outer[side])


def _delays(operator: StreamStreamJoin) -> bool:
    return operator.grace_ms is not None and any(outer_sides(operator.join_type))


def _after(operator: StreamStreamJoin) -> Numbers:
    """How long (ms) after a row of each input its matches may lie."""
    return np.array([operator.bounds(side)[1] for side in (0, 1)], np.int64)


def _stored(operator: StreamStreamJoin, time: int, state: State) -> list[StoredRow]:
    """The rows of the state that may close until a stream time (ms), or decide whether others do."""
    limits = operator.limits(time)
    if not _closes_together(operator):
        limits = (max(limits), max(limits))
    return [
        StoredRow(rows.rank, rows.packed_key, rows.key, rows.timestamp, value)
        for rows in pending.ready(state, limits)
        for value in rows.values
    ]


def _closes(operator: StreamStreamJoin, arrived: Arrived, sides: Numbers, times: Numbers) -> Numbers:
    """For each row, if it waits, the row of the batch that closes its window: the first one at a late enough time."""
    size = len(arrived.times)
    if not _delays(operator):
        return np.full(len(times), size)
    closing = np.flatnonzero(_closing(arrived))
    # A row that waits was in time when it came, so that the row that closes its window comes after it.
    over = times + _after(operator)[sides] + (operator.grace_ms or 0)
    found: Numbers = np.append(closing, size)[np.searchsorted(arrived.now[closing], over, "right")]
    return found


def _closing(arrived: Arrived) -> Flags:
    """Which rows may close windows: those at stream time."""
    found: Flags = arrived.stores & (arrived.times == arrived.now)
    return found
