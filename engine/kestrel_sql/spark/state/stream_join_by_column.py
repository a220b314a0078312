"""Runs joins of two streams over whole columns of a page; the row-by-row operator says what is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.operators import late_rows
from kestrel_sql.operators.joins import buffered_rows as buffered
from kestrel_sql.operators.joins.stream_stream import StreamStreamJoin
from kestrel_sql.operators.number_columns import Numbers
from kestrel_sql.operators.operator import State
from kestrel_sql.spark.io.columns import from_rows, to_rows
from kestrel_sql.spark.state.column_rows import FAR_MS, InOrder, are_near, valid
from kestrel_sql.spark.state.interval_matches import Arrived, Meetable, chunks, expanded
from kestrel_sql.spark.state.keyed_columns import KeyedColumns, fits
from kestrel_sql.spark.state.table_versions import KeyedRows
from kestrel_sql.spark.state.waiting_rows import Waiting, waiting_rows
from kestrel_sql.sql.nodes.statements import JoinType

MAX_PAIRS = 1 << 18
"""Roughly the most pairs in memory at once; a row may meet all others."""

_NEVER = -(1 << 62)

_LEFT, _RIGHT = 0, 1


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of both inputs, and where those of rows are.

    Attributes:
        sides: the values of the left and of the right input.
        waiting: for each row of a `Waiting` the index of its value among those of its input.
        meetable: the same for each row of a `Meetable` that a row of the batch may meet.
    """

    sides: tuple[pa.StructArray, pa.StructArray]
    waiting: Numbers
    meetable: Numbers


@dataclass(frozen=True, slots=True)
class _Results:
    """Outputs.

    Attributes:
        causes: the row of the batch that causes each.
        times: its timestamp (ms).
        keys: the row of a `Waiting` that has its key.
        values: the indices of its left and right value; -1 for none.
    """

    causes: Numbers
    times: Numbers
    keys: Numbers
    values: tuple[Numbers, Numbers]


class ColumnStreamJoin(KeyedColumns):
    """Joins the rows of two streams within a time."""

    def __init__(self, stateful: Stateful, operator: StreamStreamJoin, made: pa.Schema) -> None:
        super().__init__(stateful, made)
        self._operator = operator

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether there are many rows, none has a window, and none is too far in the past or the future."""
        return super().accepts(rows) and are_near(rows)

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        keyed = self._keyed(rows, np.ones(rows.num_rows, dtype=bool))
        arrived = _arrived(keyed, state)
        meetable, stored = _meetable(keyed, arrived, state)
        first, counts = self._spans(keyed, arrived, meetable, state)
        waiting = waiting_rows(self._operator, keyed, arrived, meetable, state)
        values = _values(keyed, stored, waiting, meetable.in_state(first, counts))
        for start, end in chunks(counts, MAX_PAIRS):
            spans, met = expanded(first[start:end], counts[start:end])
            causes = spans + start
            earlier = meetable.arrivals[met] < causes
            causes, met = causes[earlier], met[earlier]
            alone, closed = waiting.advance(start, end, causes, met)
            found = [
                _single(waiting, values, waiting.closes[closed], closed),
                _pairs(waiting, values, causes, met),
                _single(waiting, values, alone, alone),
            ]
            yield from self._joined(keyed, waiting, values, _in_order(found), task)
        waiting.update(state)
        self._store(keyed, arrived, state)

    def _spans(self, keyed: KeyedRows, arrived: Arrived, meetable: Meetable, state: State) -> tuple[Numbers, Numbers]:
        """The rows of the other input that each row may meet, as far as they come before it."""
        before, after = np.array([self._operator.bounds(side) for side in (_LEFT, _RIGHT)], np.int64).T
        oldest = [self._oldest(arrived, state, side) for side in (_LEFT, _RIGHT)]
        others = np.where(arrived.sides == _LEFT, oldest[_RIGHT], oldest[_LEFT])
        earliest = np.maximum(np.maximum(0, arrived.times - before[arrived.sides]), others)
        buckets = (1 - arrived.sides) * len(keyed.names) + keyed.groups
        first, counts = meetable.spans(buckets, earliest, arrived.times + after[arrived.sides])
        return first, np.where(arrived.stores, counts, 0)

    def _oldest(self, arrived: Arrived, state: State, side: int) -> Numbers:
        """The timestamp (ms) of the oldest row of an input that is still buffered after each row."""
        times = np.where(arrived.stores & (arrived.sides == side), arrived.times, _NEVER)
        newest = buffered.newest(state, side)
        now = np.maximum.accumulate(np.maximum(times, _NEVER if newest is None else newest))
        found: Numbers = now - self._operator.retention_ms + 1
        return found

    def _joined(
        self, keyed: KeyedRows, waiting: Waiting, values: _Values, found: _Results, task: int
    ) -> Iterator[pa.RecordBatch]:
        if not len(found.causes):
            return
        columns = [
            side.take(pa.array(at, mask=at < 0)).flatten() for side, at in zip(values.sides, found.values, strict=True)
        ]
        if self._operator.join_type is JoinType.RIGHT:
            columns.reverse()
        keys = list(keyed.keys)
        known = keyed.known
        if waiting.stored:
            more = from_rows([row.key for row in waiting.stored], self._inputs[_LEFT].schema.key).flatten()
            keys = [pa.concat_arrays(parts) for parts in zip(keys, more, strict=True)]
            known = np.append(known, np.ones(len(waiting.stored), dtype=bool))
        parts = {
            "k": self._key(keys, found.keys, ~known[found.keys]),
            "v": self._value([*columns[0], *columns[1]]),
        }
        yield from self._results(keyed.rows, found.causes, parts, found.times, task)

    def _store(self, keyed: KeyedRows, arrived: Arrived, state: State) -> None:
        self._note_late(keyed.rows, arrived, state)
        state["time"] = int(arrived.now[-1])
        for number, side in enumerate(keyed.sides):
            own = np.flatnonzero(arrived.stores[side.at])
            if not len(own):
                continue
            oldest = int(self._oldest(arrived, state, number)[-1])
            newest = int(arrived.times[side.at[own]].max())
            own = own[arrived.times[side.at[own]] >= oldest]
            at = side.at[own]
            names = [keyed.names[group] or b"" for group in keyed.groups[at].tolist()]
            values = to_rows(side.fields["v"].take(pa.array(own)))
            rows = zip(names, arrived.times[at].tolist(), [value or () for value in values], strict=True)
            buffered.add_all(state, number, newest, rows, self._operator.retention_ms)

    def _note_late(self, rows: InOrder, arrived: Arrived, state: State) -> None:
        oldest = np.where(
            arrived.sides == _LEFT, self._oldest(arrived, state, _LEFT), self._oldest(arrived, state, _RIGHT)
        )
        found = np.flatnonzero(arrived.stores & (arrived.times < oldest))
        if len(found):
            at = found[0]
            newest = int(oldest[at]) + self._operator.retention_ms - 1
            self._operator.note_late(state, int(arrived.sides[at]), int(arrived.times[at]), newest, len(found))
            late_rows.note_row(state, rows.given.slice, int(rows.order[at]), 1)


def column_stream_join(stateful: Stateful, made: pa.Schema) -> ColumnStreamJoin | None:
    """Return what runs a join of two streams over whole columns; None if it goes row by row."""
    operator = stateful.operator
    if not isinstance(operator, StreamStreamJoin) or not fits(stateful, made):
        return None
    longest = max(operator.before_ms, operator.after_ms, operator.retention_ms)
    return ColumnStreamJoin(stateful, operator, made) if longest < FAR_MS else None


def _arrived(keyed: KeyedRows, state: State) -> Arrived:
    times = keyed.rows.times
    sides = np.zeros(len(times), np.int64)
    sides[keyed.sides[_RIGHT].at] = _RIGHT
    has_value = np.empty(len(times), dtype=bool)
    for side in keyed.sides:
        has_value[side.at] = valid(side.fields["v"])
    now = np.maximum.accumulate(np.maximum(times, state.get("time", times[0])))
    return Arrived(sides, times, now, has_value, has_value & keyed.known)


def _meetable(keyed: KeyedRows, arrived: Arrived, state: State) -> tuple[Meetable, Sequence[Sequence[Any]]]:
    """The rows that others may meet, and those of the state as they are buffered: those of the left input first."""
    groups = len(keyed.names)
    rows = [buffered.rows_of(state, side) for side in (_LEFT, _RIGHT)]
    lists = [own.get(name, ()) if name is not None else () for own in rows for name in keyed.names]
    stored = list(chain.from_iterable(lists))
    own = np.flatnonzero(arrived.stores)
    buckets = np.repeat(np.arange(2 * groups), [len(each) for each in lists])
    meetable = Meetable(
        np.concatenate([buckets, arrived.sides[own] * groups + keyed.groups[own]]),
        np.concatenate([np.array([row[0] for row in stored], np.int64), arrived.times[own]]),
        np.concatenate([np.full(len(stored), -1), own]),
    )
    return meetable, stored


def _values(keyed: KeyedRows, stored: Sequence[Sequence[Any]], waiting: Waiting, used: Numbers) -> _Values:
    """The values of all rows of the batch, of the rows of the state that wait, and of those at `used` in `Meetable`."""
    meetable, size = waiting.meetable, len(waiting.arrived.times)
    own, met = np.zeros(len(waiting.times), np.int64), np.full(len(meetable.order), -1)
    sides = []
    for number, side in enumerate(keyed.sides):
        mine = used[meetable.buckets[used] // len(keyed.names) == number]
        late = np.flatnonzero(waiting.sides[size:] == number)
        own[side.at] = np.arange(len(side.at))
        own[size + late] = len(side.at) + np.arange(len(late))
        met[mine] = len(side.at) + len(late) + np.arange(len(mine))
        older = [waiting.stored[at].value for at in late.tolist()]
        older += [stored[at][1] for at in meetable.order[mine].tolist()]
        sides.append(pa.concat_arrays([side.fields["v"], side.stored(older)]) if older else side.fields["v"])
    new = meetable.arrivals >= 0
    met[new] = own[meetable.arrivals[new]]
    return _Values((sides[_LEFT], sides[_RIGHT]), own, met)


def _single(waiting: Waiting, values: _Values, causes: Numbers, rows: Numbers) -> _Results:
    """Rows without a match."""
    own, is_left = values.waiting[rows], waiting.sides[rows] == _LEFT
    return _Results(causes, waiting.times[rows], rows, (np.where(is_left, own, -1), np.where(is_left, -1, own)))


def _pairs(waiting: Waiting, values: _Values, causes: Numbers, met: Numbers) -> _Results:
    """Rows with those that they meet."""
    own, other, is_left = values.waiting[causes], values.meetable[met], waiting.sides[causes] == _LEFT
    times = np.maximum(waiting.times[causes], waiting.meetable.times[met])
    return _Results(causes, times, causes, (np.where(is_left, own, other), np.where(is_left, other, own)))


def _in_order(found: Sequence[_Results]) -> _Results:
    """All outputs by cause; those of one cause in the given order."""
    causes = np.concatenate([each.causes for each in found])
    order = np.argsort(causes, kind="stable")
    times = np.concatenate([each.times for each in found])[order]
    keys = np.concatenate([each.keys for each in found])[order]
    lefts, rights = (np.concatenate([each.values[side] for each in found])[order] for side in (_LEFT, _RIGHT))
    return _Results(causes[order], times, keys, (lefts, rights))
