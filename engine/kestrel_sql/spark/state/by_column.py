"""Computes aggregates over whole columns of a page, with the results of the operator that works row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.keys import EncodedKey
from kestrel_sql.functions.declaration import Fold
from kestrel_sql.operators.aggregates.by_column import Folded, Segments, fold_rows, greatest
from kestrel_sql.operators.aggregates.groups import new_group
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.group import COLUMNS, Group
from kestrel_sql.operators.group_columns import FoundGroups, GroupColumns
from kestrel_sql.operators.number_columns import Flags, Numbers, States, Values, objects_of
from kestrel_sql.operators.operator import Output, State
from kestrel_sql.operators.state_codec import homes_of
from kestrel_sql.spark.envelope import struct_column
from kestrel_sql.spark.io.columns import rows_at, small, to_array, to_list
from kestrel_sql.spark.state.closed_windows import ClosedWindows
from kestrel_sql.spark.state.column_rows import (
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
from kestrel_sql.spark.types import to_arrow
from kestrel_sql.types.sql_types import Primitive

OUTPUTS_IN_MEMORY = 1 << 18
"""Roughly the most outputs in memory at once.

A row gives one for each window that it falls in, which may be thousands.
"""

MANY_GROUPS = 512
"""From this many groups on, an aggregate without windows keeps them as columns if they hold only numbers."""

_T = TypeVar("_T")

Aggregate = SessionWindowAggregate


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


def _objects(states: States, kept: Flags | None) -> list[Any]:
    return objects_of(states if kept is None else tuple(column.at(kept) for column in states))


def _those(values: Sequence[_T], kept: Flags | None) -> Sequence[_T]:
    return values if kept is None else list(compress(values, kept.tolist()))
