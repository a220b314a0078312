"""Computes aggregates over whole columns of a page, with the results of the operator that works row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from kestrel_sql.arrow.columns import to_array, to_list, to_rows
from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.keys import EncodedKey
from kestrel_sql.functions.declaration import Fold
from kestrel_sql.operators import late_rows
from kestrel_sql.operators.aggregates.by_column import Folded, Segments, fold_rows, greatest
from kestrel_sql.operators.aggregates.groups import new_group
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate, groups_of
from kestrel_sql.operators.group import COLUMNS, Group
from kestrel_sql.operators.group_columns import FoundGroups, GroupColumns
from kestrel_sql.operators.number_columns import Flags, Numbers, States, Values, objects_of
from kestrel_sql.operators.operator import Output, State
from kestrel_sql.operators.state_codec import homes_of
from kestrel_sql.spark.envelope import struct_column
from kestrel_sql.spark.io.columns import rows_at, small
from kestrel_sql.spark.state.closed_windows import ClosedWindows, merged, ranks_of
from kestrel_sql.spark.state.column_rows import (
    MANY_ROWS,
    Made,
    codes_of,
    enveloped,
    numbers_of,
    order_of,
    output_structs,
    positions_of,
    present,
    valid,
)
from kestrel_sql.spark.state.grouped_rows import Grouped, GroupObjects, Shares
from kestrel_sql.spark.state.key_names import KeyNames
from kestrel_sql.types.sql_types import Primitive

OUTPUTS_IN_MEMORY = 1 << 18
"""Roughly the most outputs in memory at once.

A row gives one for each window that it falls in, which may be thousands.
"""

MANY_GROUPS = 512
"""From this many groups on, an aggregate without windows keeps them as columns if they hold only numbers."""

_T = TypeVar("_T")

Aggregate = StreamAggregate | TimeWindowAggregate | SessionWindowAggregate


class ColumnAggregate:
    """Computes an aggregate without windows over whole columns of a stream."""

    def __init__(self, stateful: Stateful, operator: Aggregate, made: pa.Schema) -> None:
        self._operator = operator
        assert isinstance(operator.key_bytes, EncodedKey)  # noqa: S101 - `column_operators` checks it
        self._names = KeyNames(operator.key_bytes)
        self._input = stateful.inputs[0]
        self._output = stateful.output
        self._made = made

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether rows that `can_run` accepts may go by column."""
        return True

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        chosen = self._in_order(rows)
        if chosen.num_rows:
            yield from self._results(chosen, _whole(chosen), task, state)

    def _results(self, rows: pa.RecordBatch, shares: Shares, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Fold rows into the groups of their shares, and store the groups."""
        grouped, folded, times = self._folded_rows(rows, shares, state)
        self._store(grouped, folded, times)
        structs = self._structs(grouped, folded, shares)
        after = grouped.unsorted(times.after.values)
        made = Made(self._output.number, structs, after, shares.positions, shares.bounds)
        yield from enveloped(rows, made, self._made, task)

    def _folded_rows(
        self, rows: pa.RecordBatch, shares: Shares, state: State
    ) -> tuple[Grouped, Sequence[Folded], Folded]:
        """Fold rows into the groups of their shares; the last result has the timestamps (ms)."""
        grouped = self._grouped(rows, shares, state)
        folded = [self._folded(grouped, at) for at in range(len(self._operator.calls))]
        times = greatest((grouped.before.times,), grouped.times(), grouped.rows)
        return grouped, folded, times

    def _final(
        self, rows: pa.RecordBatch, closed: Mapping[int, Sequence[Output]], task: int
    ) -> Iterator[pa.RecordBatch]:
        """Return the results of the windows that rows close, by the indices of these rows."""
        yield from self._emitted_columns(rows, self._as_columns(closed), task)

    def _as_columns(self, closed: Mapping[int, Sequence[Output]]) -> ClosedWindows:
        outputs = [output for own in closed.values() for output in own]
        bounds = np.array([output.window for output in outputs], np.int64).reshape(-1, 2)
        return ClosedWindows(
            np.repeat(np.array(list(closed), np.int64), [len(own) for own in closed.values()]),
            output_structs(outputs, self._output, self._made),
            np.array([output.timestamp for output in outputs], np.int64),
            bounds[:, 0],
            bounds[:, 1],
        )

    def _emitted_columns(self, rows: pa.RecordBatch, closed: ClosedWindows, task: int) -> Iterator[pa.RecordBatch]:
        if len(closed.causes):
            bounds = pa.array(closed.starts), pa.array(closed.ends)
            positions = positions_of(closed.causes)
            made = Made(self._output.number, closed.structs, closed.times, positions, bounds)
            yield from enveloped(rows_at(rows, closed.causes), made, self._made, task)

    def _found(
        self, state: State, shares: Shares, numbers: Numbers, names: Sequence[bytes]
    ) -> GroupObjects | FoundGroups:
        """The group of each name in the state; `numbers` are those of their shares."""
        groups, fresh = state.setdefault("groups", {}), self._fresh()
        if isinstance(groups, GroupColumns):
            return groups.find(names, fresh)
        copied = self._output.schema.value[: len(self._operator.columns)]
        if len(groups) + len(names) >= MANY_GROUPS and all(isinstance(each.type, Primitive) for each in copied):
            columns = state["groups"] = GroupColumns.of(groups, fresh, [to_arrow(each.type) for each in copied])
            return columns.find(names, fresh)
        return GroupObjects.of(homes_of(groups, names), names, fresh)

    def _fresh(self) -> Group:
        return new_group(self._operator.columns, self._operator.calls, None)

    def _to_store(self, lasts: Iterable[Group], keys: pa.StructArray) -> Iterable[Group]:
        """The groups to store, of which `lasts` have the times, columns and states."""
        return lasts

    def _in_order(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that have a key and a value, sorted by ordinal."""
        structs = rows.column(struct_column(self._input.number))
        usable = present(structs, "k") & present(structs, "v")
        if len(self._input.schema.key) == 1:
            usable &= valid(structs.field("k").field(0))
        return rows_at(rows, order_of(rows, usable))

    def _grouped(self, rows: pa.RecordBatch, shares: Shares, state: State) -> Grouped:
        structs = rows.column(struct_column(self._input.number))
        codes = codes_of(structs.field("k").flatten())
        if len(shares.names) > 1:
            codes = small(codes.astype(np.int64) * len(shares.names) + shares.numbers)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(codes[order]) != 0]))
        keys = structs.field("k").take(pa.array(order[starts]))
        names = self._names.of(keys)
        before = self._found(state, shares, shares.numbers[order[starts]], names)
        times = rows.column("ts").to_numpy()
        return Grouped(structs, times, order, Segments(starts, len(order)), keys, names, before)

    def _folded(self, grouped: Grouped, at: int) -> Folded:
        aggregator, arguments = self._operator.calls[at]
        assert aggregator.fold is not None  # noqa: S101 - `column_aggregates` checks it
        values = [grouped.structs.field("v").field(index) for index in arguments]
        numbers = (
            numbers_of(values[0])
            if values and aggregator.fold is not Fold.COUNT
            else np.zeros(len(grouped.order), np.int64)
        )
        known = np.ones(len(grouped.order), dtype=bool)
        for array in values:
            known &= valid(array)
        given = Values(numbers[grouped.order], known[grouped.order])
        return fold_rows(aggregator.fold, grouped.before.states[at], given, grouped.rows)

    def _structs(self, grouped: Grouped, folded: Sequence[Folded], shares: Shares) -> pa.StructArray:
        """The struct column of the outputs, in the order of the rows."""
        kind = self._made.field(struct_column(self._output.number)).type
        key = grouped.structs.field("k")
        parts: dict[str, pa.Array] = {"k": pa.StructArray.from_arrays(key.flatten(), fields=list(kind.field("k").type))}
        results, bounds = list(kind.field("v").type), list(shares.bounds or ())
        parts["v"] = pa.StructArray.from_arrays([*self._now(grouped, folded), *bounds], fields=results)
        if self._output.has_old:
            parts["o"] = pa.StructArray.from_arrays([*self._before(grouped, folded), *bounds], fields=results)
        return pa.StructArray.from_arrays([parts[field.name] for field in kind], fields=list(kind))

    def _now(self, grouped: Grouped, folded: Sequence[Folded]) -> list[pa.Array]:
        """The columns of the results after each row, without the bounds of their windows."""
        now = [grouped.structs.field("v").field(index) for index in self._operator.columns]
        return now + [grouped.as_array(each.after, kind) for each, kind in zip(folded, self._kinds(), strict=True)]

    def _before(self, grouped: Grouped, folded: Sequence[Folded]) -> list[pa.Array]:
        """The columns of the results before each row, without the bounds of their windows."""
        old = [self._earlier(grouped, position) for position in range(len(self._operator.columns))]
        for each, kind in zip(folded, self._kinds(), strict=True):
            old.append(grouped.as_array(grouped.rows.before(each.first, each.after), kind))
        return old

    def _kinds(self) -> list[pa.DataType]:
        """The types of the aggregates in a result."""
        results = list(self._made.field(struct_column(self._output.number)).type.field("v").type)
        first = len(self._operator.columns)
        return [field.type for field in results[first : first + len(self._operator.calls)]]

    def _earlier(self, grouped: Grouped, position: int) -> pa.Array:
        """A column that results copy from the rows, as it was before each row."""
        column = self._output.schema.value[position]
        own = grouped.structs.field("v").field(self._operator.columns[position])
        if isinstance(grouped.before, FoundGroups):
            stored = grouped.before.columns[position].cast(own.type)
        else:
            stored = to_array([group[COLUMNS][position] for group in grouped.before.groups], column)
        count, rows = len(stored), grouped.rows
        source = np.roll(grouped.order, 1) + count
        source[rows.starts] = np.arange(count)
        return pa.concat_arrays([stored, own]).take(pa.array(grouped.unsorted(source)))

    def _store(self, grouped: Grouped, folded: Sequence[Folded], times: Folded, kept: Flags | None = None) -> None:
        """Store the last state of each group, or of those that are `kept`."""
        if isinstance(grouped.before, FoundGroups):
            taken = pa.array(grouped.last)
            copied = [grouped.structs.field("v").field(index).take(taken) for index in self._operator.columns]
            grouped.before.replace(times.states[0], copied, [each.states for each in folded])
            return
        last, keys = grouped.last, grouped.keys
        if kept is not None:
            last, keys = last[kept], keys.filter(pa.array(kept))
        taken, count = pa.array(last), len(last)
        calls = [_objects(each.states, kept) for each in folded]
        lists = [to_list(grouped.structs.field("v").field(index).take(taken)) for index in self._operator.columns]
        columns: Iterable[list[Any]] = map(list, zip(*lists, strict=True)) if lists else ([] for _ in range(count))
        states = map(list, zip(*calls, strict=True)) if calls else ([] for _ in range(count))
        lasts = map(list, zip(_objects(times.states, kept), columns, states, strict=True))
        places = zip(_those(grouped.objects.own, kept), _those(grouped.names, kept), strict=True)
        for (stored, name), group in zip(places, self._to_store(lasts, keys), strict=True):
            stored[name] = group


class ColumnWindows(ColumnAggregate):
    """Computes an aggregate in tumbling or hopping windows over whole columns, with a result for each row."""

    def __init__(self, stateful: Stateful, operator: TimeWindowAggregate, made: pa.Schema) -> None:
        super().__init__(stateful, operator, made)
        self._windows = operator

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        chosen = self._in_order(rows)
        most = max(1, OUTPUTS_IN_MEMORY * self._windows.advance_ms // self._windows.size_ms)
        for start in range(0, chosen.num_rows, most):
            yield from self._run_some(chosen.slice(start, most), task, state)

    def _run_some(self, chosen: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        times = chosen.column("ts").to_numpy()
        now = np.maximum.accumulate(np.maximum(times, state.get("time", times[0])))
        state["time"] = int(now[-1])
        self._note_late(chosen, now, state)
        at, shares = self._shares(times, now)
        newest = np.full(len(times), state.get("newest", 0))
        # Of the windows of a row, the last is the newest.
        newest[at] = np.maximum(newest[at], np.array(shares.names, np.int64)[shares.numbers])
        reached = _Reached(at, shares, now, np.maximum.accumulate(newest))
        yield from self._processed(chosen, reached, task, state)

    def _processed(self, rows: pa.RecordBatch, reached: _Reached, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Fold rows into the windows that they reach, and delete expired windows."""
        if len(reached.at):
            yield from self._results(rows_at(rows, reached.at), reached.shares, task, state)
        # No later row of the batch reaches an expired window, so deleting them once at the end is enough.
        self._windows.forget(state)

    def _shares(self, times: Numbers, now: Numbers) -> tuple[Numbers, Shares]:
        """The indices of the rows in open windows, once for each window, and the windows as shares."""
        size, advance = self._windows.size_ms, self._windows.advance_ms
        first = self._first_starts(times)
        counts = np.where(times < 0, 0, (times - first) // advance + 1)
        at = np.repeat(np.arange(len(times)), counts)
        starts = first[at] + (np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)) * advance
        is_open = starts + size > now[at] - self._windows.grace_ms
        at, starts = at[is_open], starts[is_open]
        names, numbers = np.unique(starts, return_inverse=True)
        begins = np.searchsorted(at, at)
        bounds = (pa.array(starts), pa.array(starts + size))
        return at, Shares(names.tolist(), numbers, np.arange(len(at)) - begins, bounds)

    def _first_starts(self, times: Numbers) -> Numbers:
        """The start of the first window of each timestamp (all ms)."""
        size, advance = self._windows.size_ms, self._windows.advance_ms
        found: Numbers = np.maximum(0, times - size + advance) // advance * advance
        return found

    def _note_late(self, rows: pa.RecordBatch, now: Numbers, state: State) -> None:
        times, size, grace = rows.column("ts").to_numpy(), self._windows.size_ms, self._windows.grace_ms
        starts = self._first_starts(times)
        found = np.flatnonzero((times >= 0) & (starts + size <= now - grace))
        if len(found):
            at = int(found[0])
            window = int(starts[at]), int(starts[at]) + size
            late_rows.note(state, int(times[at]), window, grace, int(now[at]), len(found))
            late_rows.note_row(state, rows.slice(at, 1))

    def _found(self, state: State, shares: Shares, numbers: Numbers, names: Sequence[bytes]) -> GroupObjects:
        windows = [groups_of(start, state) for start in shares.names]
        return GroupObjects.of([windows[at] for at in numbers.tolist()], names, self._fresh())

    def _to_store(self, lasts: Iterable[Group], keys: pa.StructArray) -> Iterable[Group]:
        return ([*last, list(key or ())] for last, key in zip(lasts, to_rows(keys), strict=True))


class ColumnFinalWindows(ColumnWindows):
    """Computes an aggregate in time windows over whole columns, with the results of a window when it closes."""

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether there are many rows."""
        return bool(rows.num_rows >= MANY_ROWS)

    def _processed(self, rows: pa.RecordBatch, reached: _Reached, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Emit the windows that close, each at the row that closes it; later rows have not changed it."""
        last_starts = reached.now - self._windows.grace_ms - self._windows.size_ms
        brief = [self._brief(rows, reached, last_starts, state)] if len(reached.at) else []
        closing = [start for start in state.get("starts", []) if start <= last_starts[-1]]
        if not closing:
            return
        closed = {}
        for cause in np.unique(np.searchsorted(last_starts, closing)).tolist():
            state["newest"] = int(reached.newest[cause])
            own: list[Output] = []
            self._windows.close(int(last_starts[cause]), state, own)
            closed[cause] = own
        state["newest"] = int(reached.newest[-1])
        yield from self._emitted_columns(rows, merged([self._as_columns(closed), *brief]), task)

    def _brief(self, rows: pa.RecordBatch, reached: _Reached, last_starts: Numbers, state: State) -> ClosedWindows:
        """Fold rows into their windows; return the results of the windows that open and close within these rows.

        The groups of such windows are never stored: to make an object of each took three quarters of it.
        """
        shares, windows = reached.shares, state.get("windows", {})
        is_brief = np.array([start <= last_starts[-1] and start not in windows for start in shares.names], dtype=bool)
        grouped, folded, times = self._folded_rows(rows_at(rows, reached.at), shares, state)
        numbers = shares.numbers[grouped.order[grouped.rows.starts]]
        brief = is_brief[numbers]
        self._store(grouped, folded, times, ~brief)
        starts = np.array(shares.names, np.int64)[numbers]
        causes = np.searchsorted(last_starts, starts)
        if not self._windows.has_cache:
            brief &= starts >= reached.newest[np.minimum(causes, len(reached.newest) - 1)] - self._windows.retention_ms
        at = np.flatnonzero(brief)
        at = at[np.lexsort((ranks_of(_those(grouped.names, brief)), starts[at]))]
        begins, ends = starts[at], starts[at] + self._windows.size_ms
        bounds = (pa.array(begins), pa.array(ends))
        return ClosedWindows(
            causes[at],
            self._last_structs(grouped, folded, at, bounds),
            times.after.values[grouped.rows.ends[at]],
            begins,
            ends,
        )

    def _last_structs(
        self, grouped: Grouped, folded: Sequence[Folded], at: Numbers, bounds: tuple[pa.Array, pa.Array]
    ) -> pa.StructArray:
        """The struct column of the results of groups after all their rows."""
        kind = self._made.field(struct_column(self._output.number)).type
        key = grouped.keys.take(pa.array(at))
        last = pa.array(grouped.last[at])
        now = [column.take(last) for column in self._now(grouped, folded)]
        parts = {
            "k": pa.StructArray.from_arrays(key.flatten(), fields=list(kind.field("k").type)),
            "v": pa.StructArray.from_arrays([*now, *bounds], fields=list(kind.field("v").type)),
        }
        arrays = [parts[field.name] if field.name in parts else pa.nulls(len(at), field.type) for field in kind]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))


@dataclass(frozen=True, slots=True)
class _Reached:
    """What rows reach: `now` is the stream time after each row, `newest` the start of the newest window (both in ms).

    `at` has the indices of the rows in open windows, once for each window, and `shares` these windows.
    """

    at: Numbers
    shares: Shares
    now: Numbers
    newest: Numbers


def _objects(states: States, kept: Flags | None) -> list[Any]:
    return objects_of(states if kept is None else tuple(column.at(kept) for column in states))


def _those(values: Sequence[_T], kept: Flags | None) -> Sequence[_T]:
    return values if kept is None else list(compress(values, kept.tolist()))


def _whole(rows: pa.RecordBatch) -> Shares:
    nothing = np.zeros(rows.num_rows, np.int64)
    return Shares([0], nothing, nothing)
