"""Computes aggregates over whole columns of a page, with the results of the operator that works row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kestrel_sql.functions.declaration import Fold
from kestrel_sql.operators.aggregates.by_column import Folded, Numbers, Segments, Values, fold_rows, greatest
from kestrel_sql.operators.aggregates.groups import COLUMNS, STATES, TIMESTAMP, Group, new_group
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate, groups_of
from kestrel_sql.operators.operator import Output, State
from kestrel_sql.operators.state_codec import homes_of
from kestrel_sql.spark.build.keyed import EncodedKey
from kestrel_sql.spark.io.columns import rows_at, small, to_array, to_list, to_rows
from kestrel_sql.spark.stages.group import Stateful
from kestrel_sql.spark.stages.stage import struct_column
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
from kestrel_sql.spark.state.key_names import KeyNames

MAX_OUTPUTS = 1 << 18
"""Roughly the most outputs in memory at once.

A row gives one for each window that it falls in, which may be thousands.
"""


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
        grouped, folded, times = self._update(rows, shares, state)
        structs = self._structs(grouped, folded, shares)
        after = grouped.unsorted(times.after.values)
        made = Made(self._output.relation, structs, after, shares.positions, shares.bounds)
        yield from enveloped(rows, made, self._made, task)

    def _update(self, rows: pa.RecordBatch, shares: Shares, state: State) -> tuple[Grouped, Sequence[Folded], Folded]:
        """Fold rows into the groups of their shares, and store those; the last result has the timestamps (ms)."""
        grouped = self._grouped(rows, shares, state)
        folded = [self._folded(grouped, at) for at in range(len(self._operator.calls))]
        times = greatest([group[TIMESTAMP] for group in grouped.groups], grouped.times(), grouped.rows)
        self._store(grouped, folded, times, state)
        return grouped, folded, times

    def _final(
        self, rows: pa.RecordBatch, closed: Mapping[int, Sequence[Output]], task: int
    ) -> Iterator[pa.RecordBatch]:
        """Return the results of the windows that rows close, by the indices of these rows."""
        outputs = [output for own in closed.values() for output in own]
        if outputs:
            causes = np.repeat(list(closed), [len(own) for own in closed.values()])
            bounds = [pa.array(each, pa.int64()) for each in zip(*(output.window for output in outputs), strict=True)]
            times = np.array([output.timestamp for output in outputs], np.int64)
            structs = output_structs(outputs, self._output, self._made)
            made = Made(self._output.relation, structs, times, positions_of(causes), (bounds[0], bounds[1]))
            yield from enveloped(rows_at(rows, causes), made, self._made, task)

    def _homes(
        self, state: State, shares: Shares, numbers: Numbers, names: Sequence[bytes]
    ) -> list[dict[bytes, Group]]:
        """The dictionary of the state that has the group of each name; `numbers` are those of their shares."""
        return homes_of(state.setdefault("groups", {}), names)

    def _to_store(self, lasts: Iterable[Group], keys: pa.StructArray) -> Iterable[Group]:
        """The groups to store, of which `lasts` have the times, columns and states."""
        return lasts

    def _in_order(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that have a key and a value, sorted by ordinal."""
        structs = rows.column(struct_column(self._input.relation))
        usable = present(structs, "k") & present(structs, "v")
        if len(self._input.schema.key) == 1:
            usable &= valid(structs.field("k").field(0))
        return rows_at(rows, order_of(rows, usable))

    def _grouped(self, rows: pa.RecordBatch, shares: Shares, state: State) -> Grouped:
        structs = rows.column(struct_column(self._input.relation))
        codes = codes_of(structs.field("k").flatten())
        if len(shares.names) > 1:
            codes = small(codes.astype(np.int64) * len(shares.names) + shares.numbers)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(codes[order]) != 0]))
        keys = structs.field("k").take(pa.array(order[starts]))
        names = self._names.of(keys)
        own = self._homes(state, shares, shares.numbers[order[starts]], names)
        times = rows.column("ts").to_numpy()
        begun = times[order[starts]].tolist()
        columns, calls = self._operator.columns, self._operator.calls
        groups = [
            stored.get(name) or new_group(columns, calls, time)
            for stored, name, time in zip(own, names, begun, strict=True)
        ]
        return Grouped(structs, times, order, Segments(starts, len(order)), keys, names, groups, own)

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
        return fold_rows(aggregator.fold, [group[STATES][at] for group in grouped.groups], given, grouped.rows)

    def _structs(self, grouped: Grouped, folded: Sequence[Folded], shares: Shares) -> pa.StructArray:
        """The struct column of the outputs, in the order of the rows."""
        kind = self._made.field(struct_column(self._output.relation)).type
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
        results = list(self._made.field(struct_column(self._output.relation)).type.field("v").type)
        first = len(self._operator.columns)
        return [field.type for field in results[first : first + len(self._operator.calls)]]

    def _earlier(self, grouped: Grouped, position: int) -> pa.Array:
        """A column that results copy from the rows, as it was before each row."""
        column = self._output.schema.value[position]
        own = grouped.structs.field("v").field(self._operator.columns[position])
        stored = to_array([group[COLUMNS][position] for group in grouped.groups], column)
        count, rows = len(grouped.groups), grouped.rows
        source = np.roll(grouped.order, 1) + count
        source[rows.starts] = np.arange(count)
        return pa.concat_arrays([stored, own]).take(pa.array(grouped.unsorted(source)))

    def _store(self, grouped: Grouped, folded: Sequence[Folded], times: Folded, state: State) -> None:
        """Store the last state of each group."""
        last = pa.array(grouped.order[grouped.rows.ends])
        count = len(grouped.groups)
        lists = [to_list(grouped.structs.field("v").field(index).take(last)) for index in self._operator.columns]
        columns = map(list, zip(*lists, strict=True)) if lists else ([] for _ in range(count))
        calls = [each.states for each in folded]
        states = map(list, zip(*calls, strict=True)) if calls else ([] for _ in range(count))
        lasts = map(list, zip(times.states, columns, states, strict=True))
        found = zip(grouped.own, grouped.names, self._to_store(lasts, grouped.keys), strict=True)
        for stored, name, group in found:
            stored[name] = group


class ColumnWindows(ColumnAggregate):
    """Computes an aggregate in tumbling or hopping windows over whole columns, with a result for each row."""

    def __init__(self, stateful: Stateful, operator: TimeWindowAggregate, made: pa.Schema) -> None:
        super().__init__(stateful, operator, made)
        self._windows = operator

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        chosen = self._in_order(rows)
        most = max(1, MAX_OUTPUTS * self._windows.advance_ms // self._windows.size_ms)
        for start in range(0, chosen.num_rows, most):
            yield from self._run_some(chosen.slice(start, most), task, state)

    def _run_some(self, chosen: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        times = chosen.column("ts").to_numpy()
        now = np.maximum.accumulate(np.maximum(times, state.get("time", times[0])))
        state["time"] = int(now[-1])
        at, shares = self._shares(times, now)
        newest = np.full(len(times), state.get("newest", 0))
        if len(at):
            # Of the windows of a row, the last is the newest.
            newest[at] = np.maximum(newest[at], np.array(shares.names)[shares.numbers])
            yield from self._results(rows_at(chosen, at), shares, task, state)
        yield from self._closed(chosen, now, np.maximum.accumulate(newest), task, state)

    def _closed(
        self, rows: pa.RecordBatch, now: Numbers, newest: Numbers, task: int, state: State
    ) -> Iterator[pa.RecordBatch]:
        """Delete expired windows; each row has its stream time `now` and the start of the `newest` window (ms)."""
        # No later row of the batch reaches an expired window, so deleting them once at the end is enough.
        self._windows.forget(state)
        yield from ()

    def _shares(self, times: Numbers, now: Numbers) -> tuple[Numbers, Shares]:
        """The indices of the rows in open windows, once for each window, and the windows as shares."""
        size, advance = self._windows.size_ms, self._windows.advance_ms
        first = np.maximum(0, times - size + advance) // advance * advance
        counts = np.where(times < 0, 0, (times - first) // advance + 1)
        at = np.repeat(np.arange(len(times)), counts)
        starts = first[at] + (np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)) * advance
        is_open = starts + size > now[at] - self._windows.grace_ms
        at, starts = at[is_open], starts[is_open]
        names, numbers = np.unique(starts, return_inverse=True)
        begins = np.searchsorted(at, at)
        bounds = (pa.array(starts), pa.array(starts + size))
        return at, Shares(names.tolist(), numbers, np.arange(len(at)) - begins, bounds)

    def _homes(
        self, state: State, shares: Shares, numbers: Numbers, names: Sequence[bytes]
    ) -> list[dict[bytes, Group]]:
        windows = [groups_of(start, state) for start in shares.names]
        return [windows[at] for at in numbers.tolist()]

    def _to_store(self, lasts: Iterable[Group], keys: pa.StructArray) -> Iterable[Group]:
        return ([*last, list(key or ())] for last, key in zip(lasts, to_rows(keys), strict=True))


class ColumnFinalWindows(ColumnWindows):
    """Computes an aggregate in time windows over whole columns, with the results of a window when it closes."""

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether there are many rows."""
        return bool(rows.num_rows >= MANY_ROWS)

    def _results(self, rows: pa.RecordBatch, shares: Shares, task: int, state: State) -> Iterator[pa.RecordBatch]:
        self._update(rows, shares, state)
        yield from ()

    def _closed(
        self, rows: pa.RecordBatch, now: Numbers, newest: Numbers, task: int, state: State
    ) -> Iterator[pa.RecordBatch]:
        """Emit the windows that close, each at the row that closes it; later rows have not changed it."""
        last_starts = now - self._windows.grace_ms - self._windows.size_ms
        closing = [start for start in state.get("starts", []) if start <= last_starts[-1]]
        if not closing:
            return
        closed = {}
        for cause in np.unique(np.searchsorted(last_starts, closing)).tolist():
            state["newest"] = int(newest[cause])
            own: list[Output] = []
            self._windows.close(int(last_starts[cause]), state, own)
            closed[cause] = own
        state["newest"] = int(newest[-1])
        yield from self._final(rows, closed, task)


@dataclass(frozen=True, slots=True)
class Shares:
    """The part of the state that each row belongs to: a window, or the whole state of an aggregate without windows.

    Attributes:
        names: the shares: starts of windows (ms), or 0.
        numbers: the index in `names` for each row.
        positions: the position of each row among the outputs of its input row.
        bounds: start and end (ms) of the window of each row.
    """

    names: Sequence[int]
    numbers: Numbers
    positions: Numbers
    bounds: tuple[pa.Array, pa.Array] | None = None


def _whole(rows: pa.RecordBatch) -> Shares:
    nothing = np.zeros(rows.num_rows, np.int64)
    return Shares([0], nothing, nothing)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows in the order of their ordinals, and sorted by group.

    `order` has the index of each row of the latter in the former.
    """

    structs: pa.StructArray
    given_times: Numbers
    order: Numbers
    rows: Segments
    keys: pa.StructArray
    names: list[bytes]
    groups: list[Group]
    own: list[dict[bytes, Group]]
    """The dictionary that stores each group."""

    def times(self) -> Values:
        """The timestamps (ms) of the rows, sorted by group."""
        return Values(self.given_times[self.order], np.ones(len(self.order), dtype=bool))

    def unsorted(self, values: Numbers) -> Numbers:
        """Bring a column that is sorted by group back into the order of the rows."""
        found = np.empty_like(values)
        found[self.order] = values
        return found

    def as_array(self, column: Values, kind: pa.DataType) -> pa.Array:
        """Return results that are sorted by group as an Arrow array in the order of the rows."""
        values = self.unsorted(column.values).astype(kind.to_pandas_dtype(), copy=False)
        return pa.array(values, kind, mask=None if column.valid.all() else ~self.unsorted(column.valid))
