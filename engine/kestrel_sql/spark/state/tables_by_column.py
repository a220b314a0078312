"""Runs joins and stores of tables over whole columns of a page; the row-by-row operators say what is right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.operators.aggregates.by_column import Flags, Numbers, Segments
from kestrel_sql.operators.joins.joined_row import outer_sides
from kestrel_sql.operators.joins.stream_table import StreamTableJoin
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.operators.operator import KeyBytes, State
from kestrel_sql.operators.row_keys import unchanged
from kestrel_sql.operators.tables.previous_row import Materialise
from kestrel_sql.spark.build.keyed import EncodedKey
from kestrel_sql.spark.io.columns import to_list, to_rows
from kestrel_sql.spark.io.topics import ENVELOPE_FIELDS
from kestrel_sql.spark.stages.group import Stateful
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import struct_column
from kestrel_sql.spark.state.column_rows import (
    MANY_ROWS,
    Made,
    codes_of,
    enveloped,
    order_of,
    present,
    sorted_by,
    valid,
)
from kestrel_sql.spark.state.table_versions import KeyedRows, SideRows, Versions
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.schema import Column

_LEFT, _RIGHT = 0, 1

_ENVELOPE = [field.name for field in ENVELOPE_FIELDS if field.name != "log"]


class ColumnTable(ABC):
    """Runs an operator that keeps the latest row of each key of a table over whole columns."""

    def __init__(self, stateful: Stateful, made: pa.Schema) -> None:
        operator: Any = stateful.operator
        self._key_bytes: KeyBytes = operator.key_bytes
        self._inputs = stateful.inputs
        self._output = stateful.output
        self._made = made

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether there are many rows, and none has a window."""
        return rows.num_rows >= MANY_ROWS and bool(rows.column("ws").null_count == rows.num_rows)

    @abstractmethod
    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""

    def _keyed(self, rows: pa.RecordBatch, usable: Flags) -> KeyedRows:
        rows = sorted_by(rows, order_of(rows, usable))
        relations = rows.column("rel").to_numpy()
        sides = []
        for handle in self._inputs:
            at = np.flatnonzero(relations == handle.relation)
            structs = rows.column(struct_column(handle.relation))
            if len(at) < rows.num_rows:
                structs = structs.take(pa.array(at))
            fields = {field.name: child for field, child in zip(structs.type, structs.flatten(), strict=True)}
            sides.append(SideRows(handle, at, fields))
        keys = self._keys(sides)
        codes = codes_of(keys)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(codes[order]) != 0]))
        segments = Segments(starts, len(order))
        groups = np.empty(len(order), np.int64)
        groups[order] = segments.groups
        firsts = zip(*(to_list(column.take(pa.array(order[starts]))) for column in keys), strict=True)
        names = [self._key_bytes(tuple(key)) if known else None for known, *key in firsts]
        return KeyedRows(rows, sides, keys[1:], order, segments, groups, names)

    def _keys(self, sides: Sequence[SideRows]) -> list[pa.Array]:
        """Whether each row has a key, and the columns of the keys."""
        at = pa.array(np.argsort(np.concatenate([side.at for side in sides]), kind="stable"))
        columns = zip(*(side.fields["k"].flatten() for side in sides), strict=True)
        known = [pa.array(_known(side.fields["k"])) for side in sides]
        return [pa.concat_arrays(list(parts)).take(at) for parts in (known, *columns)]

    def _usable(self, rows: pa.RecordBatch, handle: Handle) -> Flags:
        """Which rows are of a relation and have a key."""
        structs = rows.column(struct_column(handle.relation))
        found = present(structs, "k")
        if len(handle.schema.key) == 1:
            found &= valid(structs.field("k").field(0))
        return found

    def _results(
        self, keyed: KeyedRows, at: Numbers, parts: Mapping[str, pa.StructArray], times: Numbers, task: int
    ) -> Iterator[pa.RecordBatch]:
        """The outputs of the rows at these indices, one each, with the fields `parts` besides the key."""
        if not len(at):
            return
        kind = self._made.field(struct_column(self._output.relation)).type
        taken = pa.array(at)
        mask = pa.array(np.array([name is None for name in keyed.names])[keyed.groups[at]])
        key = [column.take(taken) for column in keyed.keys]
        fields = {**parts, "k": pa.StructArray.from_arrays(key, fields=list(kind.field("k").type), mask=mask)}
        structs = pa.StructArray.from_arrays([fields[field.name] for field in kind], fields=list(kind))
        made = Made(self._output.relation, structs, times, np.zeros(len(at), np.int64))
        yield from enveloped(sorted_by(keyed.rows.select(_ENVELOPE), at), made, self._made, task)

    def _value(self, columns: Sequence[pa.Array], field: str = "v", mask: Flags | None = None) -> pa.StructArray:
        """A row of the result from its columns; the columns that are left over are NULL."""
        kind = self._made.field(struct_column(self._output.relation)).type.field(field).type
        nulls = [pa.nulls(len(columns[0]), each.type) for each in list(kind)[len(columns) :]]
        return pa.StructArray.from_arrays(
            [*columns, *nulls], fields=list(kind), mask=None if mask is None else pa.array(mask)
        )


class ColumnStreamTableJoin(ColumnTable):
    """Joins the rows of a stream with the current rows of a table."""

    def __init__(self, stateful: Stateful, operator: StreamTableJoin, made: pa.Schema) -> None:
        super().__init__(stateful, made)
        self._inner = operator.join_type is JoinType.INNER

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        stream, table = self._inputs
        usable = present(rows.column(struct_column(stream.relation)), "v") | self._usable(rows, table)
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
        lefts = sorted_by(pa.RecordBatch.from_struct_array(left.fields["v"]), chosen).columns
        rights = versions.rows.take(pa.array(versions.now[at])).flatten()
        times = keyed.rows.column("ts").to_numpy()[at]
        value = self._value([*lefts, *rights]) if len(at) else left.fields["v"]
        yield from self._results(keyed, at, {"v": value}, times, task)
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


class ColumnTableJoin(ColumnTable):
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
        is_right = np.zeros(keyed.rows.num_rows, dtype=bool)
        is_right[keyed.sides[_RIGHT].at] = True
        lefts, rights = left.present[left.now], right.present[right.now]
        changes_left = lefts | left.present[left.before]
        changes_right = rights | right.present[right.before]
        emits = np.where(
            is_right, lefts | (changes_right & self._keeps[_RIGHT]), rights | (changes_left & self._keeps[_LEFT])
        )
        at = np.flatnonzero(emits)
        times = self._times(keyed, stored, (left, right), is_right)
        parts = {"v": self._joined(left, right, left.now[at], right.now[at])} if len(at) else {}
        if self._output.has_old and len(at):
            parts["o"] = self._joined(left, right, left.before[at], right.before[at], "o")
        yield from self._results(keyed, at, parts, times[at], task)
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
        own: Numbers = keyed.rows.column("ts").to_numpy()
        others = []
        for versions, rows in zip(sides, stored, strict=True):
            first = np.array([0 if row is None else row[1] for row in rows], np.int64)
            time = np.where(versions.latest >= 0, own[versions.latest], first[keyed.groups])
            others.append(np.where(versions.present[versions.now], np.maximum(own, time), own))
        return np.where(is_right, others[_LEFT], others[_RIGHT])


class ColumnMaterialise(ColumnTable):
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
            columns[self._rowtime] = keyed.rows.column("ts").cast(columns[self._rowtime].type)
        times = keyed.rows.column("ts").to_numpy()
        parts = {"v": keyed.sides[0].fields["v"], "o": self._value(columns, "o", ~valid(old))}
        yield from self._results(keyed, np.arange(keyed.rows.num_rows), parts, times, task)
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
        times = keyed.rows.column("ts").to_numpy()[side.at[last]].tolist()
        rows = state.setdefault(name, {})
        for group, value, time in zip(groups[last].tolist(), values, times, strict=True):
            rows.pop(keyed.names[group], None)
            if value is not None:
                rows[keyed.names[group]] = stored(list(value), time)


def column_table(stateful: Stateful, made: pa.Schema) -> ColumnTable | None:
    """Return what runs an operator on tables over whole columns; None if it goes row by row."""
    operator = stateful.operator
    if not _fits(stateful, made):
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


def _fits(stateful: Stateful, made: pa.Schema) -> bool:
    """Whether keys are compared by value, and the columns of the inputs are those of the result."""
    keys: Any = stateful.operator.key_bytes
    if not (isinstance(keys, EncodedKey) and keys.exact):
        return False
    inputs = stateful.inputs
    own = [_types(handle.schema.key) for handle in (*inputs, stateful.output)]
    operator: Any = stateful.operator
    sides = inputs[::-1] if getattr(operator, "join_type", None) is JoinType.RIGHT else inputs
    given = [kind for handle in sides for kind in _types(handle.schema.value)]
    given_all = all(handle.schema.value for handle in inputs)
    result = _types(stateful.output.schema.value)
    return bool(own[0]) and given_all and own.count(own[0]) == len(own) and result[: len(given)] == given


def _types(columns: Sequence[Column]) -> list[str]:
    return [str(column.type) for column in columns]


def _known(keys: pa.StructArray) -> Flags:
    """Which keys are not null; a key whose only column is NULL is null."""
    found = valid(keys)
    return found & valid(keys.field(0)) if keys.type.num_fields == 1 else found
