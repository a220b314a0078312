"""Runs joins and stores of tables over whole columns of a page; the row-by-row operators say what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.operators.joins.joined_row import outer_sides
from kestrel_sql.operators.joins.stream_table import StreamTableJoin
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.operators.number_columns import Flags, Numbers
from kestrel_sql.operators.operator import State
from kestrel_sql.operators.row_keys import unchanged
from kestrel_sql.operators.tables.previous_row import Materialise
from kestrel_sql.spark.envelope import struct_column
from kestrel_sql.spark.io.columns import rows_at, to_rows
from kestrel_sql.spark.state.column_rows import present, valid
from kestrel_sql.spark.state.keyed_columns import KeyedColumns, fits
from kestrel_sql.spark.state.table_versions import KeyedRows, Versions
from kestrel_sql.sql.nodes.statements import JoinType

_LEFT, _RIGHT = 0, 1


class ColumnStreamTableJoin(KeyedColumns):
    """Joins the rows of a stream with the current rows of a table."""

    def __init__(self, stateful: Stateful, operator: StreamTableJoin, made: pa.Schema) -> None:
        super().__init__(stateful, made)
        self._inner = operator.join_type is JoinType.INNER

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        stream, table = self._inputs
        usable = present(rows.column(struct_column(stream.number)), "v") | self._usable(rows, table)
        if not usable.any():
            return
        keyed = self._keyed(rows, usable)
        stored = state.get("rows", {})
        versions = keyed.versions(_RIGHT, [None if name is None else stored.get(name) for name in keyed.names])
        left, at = keyed.sides[_LEFT], keyed.sides[_LEFT].at
        chosen = np.arange(len(at))
        if self._inner:
            chosen = np.flatnonzero(versions.present[versions.now[at]])
        at = at[chosen]
        lefts = rows_at(pa.RecordBatch.from_struct_array(left.fields["v"]), chosen).columns
        rights = versions.rows.take(pa.array(versions.now[at])).flatten()
        times = keyed.rows.times[at]
        value = self._value([*lefts, *rights]) if len(at) else left.fields["v"]
        yield from self._results(keyed.rows, at, {"k": self._own_keys(keyed, at), "v": value}, times, task)
        self._store(keyed, state)

    @staticmethod
    def _store(keyed: KeyedRows, state: State) -> None:
        """Store the rows of the table one after the other; the order of a state's keys is part of its bytes."""
        table = keyed.sides[_RIGHT]
        if not len(table.at):
            return
        rows = state.setdefault("rows", {})
        for group, value in zip(keyed.groups[table.at].tolist(), to_rows(table.fields["v"]), strict=True):
            if value is None:
                rows.pop(keyed.names[group], None)
            else:
                rows[keyed.names[group]] = list(value)


class ColumnTableJoin(KeyedColumns):
    """Recomputes the result of a key of two tables at every change of either."""

    def __init__(self, stateful: Stateful, operator: TableJoin, made: pa.Schema) -> None:
        super().__init__(stateful, made)
        self._keeps = outer_sides(operator.join_type)
        self._right_first = operator.join_type is JoinType.RIGHT

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        usable = self._usable(rows, self._inputs[_LEFT]) | self._usable(rows, self._inputs[_RIGHT])
        if not usable.any():
            return
        keyed = self._keyed(rows, usable)
        stored = [[state.get(name, {}).get(key) for key in keyed.names] for name in ("left", "right")]
        left, right = (
            keyed.versions(side, [None if row is None else row[0] for row in stored[side]]) for side in (_LEFT, _RIGHT)
        )
        is_right = np.zeros(len(keyed.order), dtype=bool)
        is_right[keyed.sides[_RIGHT].at] = True
        lefts, rights = left.present[left.now], right.present[right.now]
        changes_left = lefts | left.present[left.before]
        changes_right = rights | right.present[right.before]
        emits = np.where(
            is_right, lefts | (changes_right & self._keeps[_RIGHT]), rights | (changes_left & self._keeps[_LEFT])
        )
        at = np.flatnonzero(emits)
        times = self._times(keyed, stored, (left, right), is_right)
        if len(at):
            parts = {"k": self._own_keys(keyed, at), "v": self._joined(left, right, left.now[at], right.now[at])}
            if self._output.has_old:
                parts["o"] = self._joined(left, right, left.before[at], right.before[at], "o")
            yield from self._results(keyed.rows, at, parts, times[at], task)
        _store_latest(keyed, state, ("left", "right"), lambda value, time: [value, time])

    def _joined(
        self, left: Versions, right: Versions, lefts: Numbers, rights: Numbers, field: str = "v"
    ) -> pa.StructArray:
        """Join versions; NULL where the join type needs a row that is missing."""
        has_left, has_right = left.present[lefts], right.present[rights]
        keeps_left, keeps_right = self._keeps
        missing = ~(has_left | has_right)
        if not keeps_right:
            missing |= ~has_left
        if not keeps_left:
            missing |= ~has_right
        columns = [left.rows.take(pa.array(lefts)).flatten(), right.rows.take(pa.array(rights)).flatten()]
        if self._right_first:
            columns.reverse()
        return self._value([*columns[0], *columns[1]], field, missing)

    @staticmethod
    def _times(
        keyed: KeyedRows, stored: Sequence[Sequence[Any]], sides: tuple[Versions, Versions], is_right: Flags
    ) -> Numbers:
        """The timestamps (ms) of the results: the greater one of the row and of the row that it meets."""
        own: Numbers = keyed.rows.times
        others = []
        for versions, rows in zip(sides, stored, strict=True):
            first = np.array([0 if row is None else row[1] for row in rows], np.int64)
            time = np.where(versions.latest >= 0, own[versions.latest], first[keyed.groups])
            others.append(np.where(versions.present[versions.now], np.maximum(own, time), own))
        return np.where(is_right, others[_LEFT], others[_RIGHT])


class ColumnMaterialise(KeyedColumns):
    """Adds the previous row to each change of a table."""

    def __init__(self, stateful: Stateful, operator: Materialise, made: pa.Schema) -> None:
        super().__init__(stateful, made)
        self._rowtime = operator.rowtime

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        usable = self._usable(rows, self._inputs[0])
        if not usable.any():
            return
        keyed = self._keyed(rows, usable)
        stored = state.get("rows", {})
        versions = keyed.versions(0, [stored.get(name) for name in keyed.names])
        old = versions.rows.take(pa.array(versions.before))
        columns = old.flatten()
        if self._rowtime is not None:
            columns[self._rowtime] = pa.array(keyed.rows.times).cast(columns[self._rowtime].type)
        times = keyed.rows.times
        at = np.arange(len(keyed.order))
        own = {"k": self._own_keys(keyed, at), "v": keyed.sides[0].fields["v"]}
        yield from self._results(keyed.rows, at, {**own, "o": self._value(columns, "o", ~valid(old))}, times, task)
        _store_latest(keyed, state, ("rows",), lambda value, _: value)


def _store_latest(
    keyed: KeyedRows, state: State, names: Sequence[str], stored: Callable[[list[Any], int], list[Any]]
) -> None:
    """Store the last row of each key and input, in the order of their ordinals, each behind all others."""
    for side, name in sorted(zip(keyed.sides, names, strict=True), key=lambda each: each[0].at[:1].tolist()):
        if not len(side.at):
            continue
        groups = keyed.groups[side.at]
        last = np.sort(len(groups) - 1 - np.unique(groups[::-1], return_index=True)[1])
        values = to_rows(side.fields["v"].take(pa.array(last)))
        times = keyed.rows.times[side.at[last]].tolist()
        rows = state.setdefault(name, {})
        for group, value, time in zip(groups[last].tolist(), values, times, strict=True):
            rows.pop(keyed.names[group], None)
            if value is not None:
                rows[keyed.names[group]] = stored(list(value), time)


def column_table(stateful: Stateful, made: pa.Schema) -> KeyedColumns | None:
    """Return what runs an operator on tables over whole columns; None if it goes row by row."""
    operator = stateful.operator
    if not fits(stateful, made):
        return None
    match operator:
        case StreamTableJoin():
            return ColumnStreamTableJoin(stateful, operator, made)
        case TableJoin():
            return ColumnTableJoin(stateful, operator, made)
        case Materialise(round_trip=round_trip) if round_trip is unchanged:
            return ColumnMaterialise(stateful, operator, made)
        case _:
            return None
