"""Computes aggregates of tables over whole columns of a page; the row-by-row operator says what is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.arrow.columns import to_array, to_list, to_rows
from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.key_bytes import EncodedKey
from kestrel_sql.functions.declaration import Fold
from kestrel_sql.operators.aggregates.column_folds import Folded, Segments, fold_rows, greatest
from kestrel_sql.operators.aggregates.unwindowed import TableAggregate
from kestrel_sql.operators.group_state import COLUMNS, STATES, TIMESTAMP, Group
from kestrel_sql.operators.number_columns import Flags, NumberColumn, Numbers, columns_of, number_column, objects_of
from kestrel_sql.operators.operator import State
from kestrel_sql.spark.envelope import struct_column
from kestrel_sql.spark.io.columns import rows_at
from kestrel_sql.spark.state.column_rows import (
    MANY_ROWS,
    Made,
    codes_of,
    enveloped,
    numbers_of,
    order_of,
    present,
    valid,
)

_UNDOABLE = frozenset({Fold.COUNT, Fold.SUM, Fold.AVG})


@dataclass(frozen=True, slots=True)
class _Steps:
    """What rows do to groups, sorted by group and ordinal; a row leaves a group before it enters one.

    Attributes:
        keys: the key of each step.
        values: the row that it adds or takes back.
        causes: its row of the batch.
        enters: whether it adds a row.
        rows: the groups.
        names: the packed key of each group.
        stored: its state; None without one.
        exists: whether the group exists before each step. A row that leaves a group that does not changes nothing.
    """

    keys: pa.StructArray
    values: pa.StructArray
    causes: Numbers
    enters: Flags
    rows: Segments
    names: Sequence[bytes]
    stored: Sequence[Group | None]
    exists: Flags

    def column(self, numbers: Numbers, known: Flags) -> NumberColumn:
        """An argument of an aggregate; what changes nothing counts as NULL."""
        return NumberColumn(numbers, known & (self.enters | self.exists), np.where(self.enters, 1, -1))


@dataclass(frozen=True, slots=True)
class _Changes:
    """Changes of groups, one for each row and group, by row and then by group left and group entered.

    Attributes:
        first: the first step of each.
        last: its last step.
        positions: its position among the changes of its row.
    """

    first: Numbers
    last: Numbers
    positions: Numbers


class ColumnTableAggregate:
    """Takes the old row of each change back from its group, and adds the new row to its group."""

    def __init__(self, stateful: Stateful, operator: TableAggregate, made: pa.Schema) -> None:
        self._operator = operator
        (self._input,) = stateful.inputs
        self._output = stateful.output
        self._made = made

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether there are many rows."""
        return bool(rows.num_rows >= MANY_ROWS)

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        structs = rows.column(struct_column(self._input.number))
        enters, leaves = self._usable(structs, "k", "v"), self._usable(structs, "ok", "o")
        chosen = rows_at(rows, order_of(rows, enters | leaves))
        if not chosen.num_rows:
            return
        steps = self._steps(chosen, state)
        changes = _changes(steps)
        folded = [self._folded(steps, at) for at in range(len(self._operator.calls))]
        times = chosen.column("ts").to_numpy()[steps.causes]
        applied = steps.enters | steps.exists
        stored = columns_of([None if group is None else group[TIMESTAMP] for group in steps.stored])
        latest = greatest(stored, NumberColumn(times, applied), steps.rows)
        after = latest.after
        made = Made(
            self._output.number,
            self._structs(steps, changes, folded),
            np.where(after.valid, after.values, times)[changes.last],
            changes.positions,
        )
        yield from enveloped(rows_at(chosen, steps.causes[changes.last]), made, self._made, task)
        self._store(steps, [each for _, each in folded], latest, state)

    def _usable(self, structs: pa.StructArray, key: str, value: str) -> Flags:
        """Which rows have a key and a value."""
        found = present(structs, key) & present(structs, value)
        return found & valid(structs.field(key).field(0)) if len(self._input.schema.key) == 1 else found

    def _steps(self, rows: pa.RecordBatch, state: State) -> _Steps:
        structs = rows.column(struct_column(self._input.number))
        left = np.flatnonzero(self._usable(structs, "ok", "o"))
        entered = np.flatnonzero(self._usable(structs, "k", "v"))
        keys, values = (
            pa.concat_arrays([structs.field(old).take(pa.array(left)), structs.field(new).take(pa.array(entered))])
            for old, new in (("ok", "k"), ("o", "v"))
        )
        causes, enters = np.concatenate([left, entered]), np.arange(len(left) + len(entered)) >= len(left)
        codes = codes_of(keys.flatten())
        order = np.lexsort((enters, causes, codes))
        starts = np.flatnonzero(np.concatenate([[True], np.diff(codes[order]) != 0]))
        names = [self._operator.key_bytes(key or ()) for key in to_rows(keys.take(pa.array(order[starts])))]
        groups = state.setdefault("groups", {})
        stored = [groups.get(name) for name in names]
        segments = Segments(starts, len(order))
        entries = np.cumsum(enters[order])
        before: Numbers = entries - enters[order]
        earlier: Numbers = before - before[starts][segments.groups]
        held = np.array([group is not None for group in stored], dtype=bool)
        taken = pa.array(order)
        return _Steps(
            keys=keys.take(taken),
            values=values.take(taken),
            causes=causes[order],
            enters=enters[order],
            rows=segments,
            names=names,
            stored=stored,
            exists=held[segments.groups] | (earlier > 0),
        )

    def _folded(self, steps: _Steps, at: int) -> tuple[NumberColumn, Folded]:
        """The results of an aggregate before the first step of each group, and after each step."""
        aggregator, arguments = self._operator.calls[at]
        assert aggregator.fold is not None  # noqa: S101 - `column_table_aggregate` checks it
        columns = [steps.values.field(index) for index in arguments]
        known = np.ones(len(steps.causes), dtype=bool)
        for column in columns:
            known &= valid(column)
        counts = aggregator.fold is Fold.COUNT or not columns
        numbers = np.zeros(len(steps.causes), np.int64) if counts else numbers_of(columns[0])
        states = [aggregator.initialize() if group is None else group[STATES][at] for group in steps.stored]
        first = number_column([aggregator.result(state) for state in states])
        return first, fold_rows(aggregator.fold, columns_of(states), steps.column(numbers, known), steps.rows)

    def _structs(
        self, steps: _Steps, changes: _Changes, folded: Sequence[tuple[NumberColumn, Folded]]
    ) -> pa.StructArray:
        """The struct column of the results."""
        kind = self._made.field(struct_column(self._output.number)).type
        key = steps.keys.take(pa.array(changes.last))
        parts = {"k": pa.StructArray.from_arrays(key.flatten(), fields=list(kind.field("k").type))}
        exists = (steps.enters | steps.exists)[changes.last]
        now = [steps.values.field(index).take(pa.array(changes.last)) for index in self._operator.columns]
        parts["v"] = self._results(now, [each.after for _, each in folded], changes.last, exists)
        if self._output.has_old:
            before = [self._earlier(steps, changes, position) for position in range(len(self._operator.columns))]
            values = [steps.rows.before(first, each.after) for first, each in folded]
            parts["o"] = self._results(before, values, changes.first, steps.exists[changes.first])
        return pa.StructArray.from_arrays([parts[field.name] for field in kind], fields=list(kind))

    def _results(
        self, columns: Sequence[pa.Array], values: Sequence[NumberColumn], at: Numbers, exists: Flags
    ) -> pa.StructArray:
        """Results: columns of rows, then the values of the aggregates at steps; NULL where no group exists."""
        fields = list(self._made.field(struct_column(self._output.number)).type.field("v").type)
        kinds = [field.type for field in fields[len(columns) :]]
        made = [
            pa.array(each.values[at].astype(kind.to_pandas_dtype(), copy=False), kind, mask=~each.valid[at])
            for each, kind in zip(values, kinds, strict=True)
        ]
        return pa.StructArray.from_arrays([*columns, *made], fields=fields, mask=pa.array(~exists))

    def _earlier(self, steps: _Steps, changes: _Changes, position: int) -> pa.Array:
        """A column that results copy from rows, as it was before each change."""
        own = steps.values.field(self._operator.columns[position])
        stored = to_array(
            [None if group is None else group[COLUMNS][position] for group in steps.stored],
            self._output.schema.value[position],
        )
        source = np.arange(len(own)) + len(stored) - 1
        source[steps.rows.starts] = np.arange(len(stored))
        return pa.concat_arrays([stored, own]).take(pa.array(source[changes.first]))

    def _store(self, steps: _Steps, folded: Sequence[Folded], times: Folded, state: State) -> None:
        """Store the last state of each group; new groups in the order in which rows enter them."""
        last = pa.array(steps.rows.ends)
        count = len(steps.names)
        columns = _transposed([to_list(steps.values.field(at).take(last)) for at in self._operator.columns], count)
        states, latest = _transposed([objects_of(each.states) for each in folded], count), objects_of(times.states)
        entered = np.full(count, len(steps.causes))
        np.minimum.at(entered, steps.rows.groups[steps.enters], steps.causes[steps.enters])
        for at in np.argsort(entered, kind="stable").tolist():
            if steps.stored[at] is not None or entered[at] < len(steps.causes):
                state["groups"][steps.names[at]] = [latest[at], columns[at], states[at]]


def _changes(steps: _Steps) -> _Changes:
    begins = np.concatenate([[True], np.diff(steps.causes) != 0])
    begins[steps.rows.starts] = True
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(begins)) - 1
    order = np.lexsort((steps.enters[last], steps.causes[last]))
    first, last = first[order], last[order]
    causes = steps.causes[last]
    return _Changes(first, last, np.concatenate([[False], causes[1:] == causes[:-1]]).astype(np.int64))


def _transposed(columns: Sequence[list[object]], count: int) -> list[list[object]]:
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(count)]


def column_table_aggregate(stateful: Stateful, made: pa.Schema) -> ColumnTableAggregate | None:
    """Return what aggregates a table over whole columns; None if it goes row by row."""
    operator = stateful.operator
    if not isinstance(operator, TableAggregate) or not stateful.inputs[0].schema.key:
        return None
    keys: Any = operator.key_bytes
    is_exact = isinstance(keys, EncodedKey) and keys.exact
    folds = {call.fold for call, _ in operator.calls}
    return ColumnTableAggregate(stateful, operator, made) if is_exact and folds <= _UNDOABLE else None
