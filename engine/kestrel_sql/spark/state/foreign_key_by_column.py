"""Joins tables by foreign key over whole columns of a page.

The operator itself finds the rows that meet, because a change of a right row meets the rows that refer to it at that
moment. It gets numbers of rows instead of their keys and values; results are taken from columns by these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.operators.aggregates.by_column import Numbers
from kestrel_sql.operators.joins.foreign_key import FOREIGN, KEY, VALUE, ForeignKeyJoin
from kestrel_sql.operators.operator import KeyBytes, Output, Row, State, Value
from kestrel_sql.spark.build.keyed import EncodedKey
from kestrel_sql.spark.io.columns import from_rows, rows_at, to_rows, values_at
from kestrel_sql.spark.stages.group import Stateful
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import struct_column
from kestrel_sql.spark.state.column_rows import codes_of, order_of, valid
from kestrel_sql.spark.state.keyed_columns import ENVELOPE_NAMES, KeyedColumns, types_of

MAX_MATCHES = 1 << 18
"""Roughly the most outputs in memory at once; a right row may meet all left rows."""

FOREIGN_ROWS = 4096
"""From this many rows on, columns are cheaper; with fewer, the operator and the stored rows take most of the time."""

_LEFT, _RIGHT = 0, 1

_RIGHT_VALUE = 0
"""The index of the value in a stored right row."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows of one input, and behind them the stored rows that these may meet; numbers of rows follow this order.

    Attributes:
        handle: the relation.
        at: the indices of its rows in the batch.
        fields: the fields of the structs of these rows.
        names: the packed key of each row of the batch.
        stored: keys and values of stored rows; right rows are stored without key.
    """

    handle: Handle
    at: Numbers
    fields: Mapping[str, pa.StructArray]
    names: Sequence[bytes | None]
    stored: list[tuple[Sequence[Any], Sequence[Any]]] = field(default_factory=list)

    def number(self, key: Sequence[Any], value: Sequence[Any]) -> list[int]:
        """Add a stored row; returns its number in the form of a key or a value."""
        self.stored.append((key, value))
        return [len(self.at) + len(self.stored) - 1]

    def all_rows(self, part: str) -> pa.StructArray:
        """Keys (`k`) or values (`v`) by number."""
        own = self.fields[part]
        if not self.stored:
            return own
        columns = self.handle.schema.key if part == "k" else self.handle.schema.value
        stored = from_rows([each[part == "v"] for each in self.stored], columns)
        return pa.concat_arrays([own, pa.StructArray.from_arrays(stored.flatten(), fields=list(own.type))])

    def originals(self, part: str, numbers: Sequence[int]) -> list[Sequence[Any]]:
        """Keys or values as the state holds them."""
        size = len(self.at)
        own = pa.array([number for number in numbers if number < size], pa.int64())
        new: Iterator[Any] = iter(to_rows(self.fields[part].take(own)))
        return [list(next(new) or ()) if at < size else self.stored[at - size][part == "v"] for at in numbers]

    def values(self) -> list[Value | None]:
        """For each row of the batch its number as a value; None for a tombstone."""
        return [(number,) if known else None for number, known in enumerate(valid(self.fields["v"]).tolist())]


class ColumnForeignKeyJoin(KeyedColumns):
    """Joins each row of the left table with the right row of its foreign key."""

    def __init__(self, stateful: Stateful, operator: ForeignKeyJoin, made: pa.Schema) -> None:
        super().__init__(stateful, made)
        self._operator = operator

    def accepts(self, rows: pa.RecordBatch) -> bool:
        """Whether there are many rows, and none has a window."""
        return rows.num_rows >= FOREIGN_ROWS and super().accepts(rows)

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        usable = self._usable(rows, self._inputs[_LEFT]) | self._usable(rows, self._inputs[_RIGHT])
        arrived = order_of(rows, usable)
        if not len(arrived):
            return
        left = _table(rows, arrived, self._inputs[_LEFT], self._operator.key_bytes)
        right = _table(rows, arrived, self._inputs[_RIGHT], self._operator.foreign_key_bytes)
        rows = rows_at(rows.select(ENVELOPE_NAMES), arrived)
        foreign = _names(left.fields["x"], self._operator.foreign_key_bytes)
        lefts, rights = _involved(left, right, foreign, state)
        _number(left, right, lefts, rights, state)
        columns = {"k": left.all_rows("k").flatten(), "left": left.all_rows("v"), "right": right.all_rows("v")}
        operator = replace(
            self._operator,
            key_bytes=lambda key: left.names[key[0]] or b"",
            foreign_key_bytes=itemgetter(0),
            left_width=1,
            right_width=1,
        )
        found: list[Output] = []
        causes: list[int] = []
        for cause, row in enumerate(_given(rows, left, right, foreign)):
            outputs = operator.process(row, state)
            found += outputs
            causes += [cause] * len(outputs)
            if len(found) >= MAX_MATCHES or (found and cause == rows.num_rows - 1):
                yield from self._joined(rows, columns, found, np.array(causes, np.int64), task)
                found, causes = [], []
        _restore(left, right, lefts, rights, state)

    def _joined(
        self, rows: pa.RecordBatch, columns: Mapping[str, Any], found: Sequence[Output], causes: Numbers, task: int
    ) -> Iterator[pa.RecordBatch]:
        keys = np.array([output.key and output.key[0] for output in found], np.int64)
        times = np.array([output.timestamp for output in found], np.int64)
        parts = {
            "k": self._key(columns["k"], keys, np.zeros(len(keys), dtype=bool)),
            "v": self._pairs(columns, [output.value for output in found], "v"),
        }
        if self._output.has_old:
            parts["o"] = self._pairs(columns, [output.old for output in found], "o")
        yield from self._results(rows, causes, parts, times, task)

    def _pairs(self, columns: Mapping[str, Any], pairs: Sequence[Value | None], part: str) -> pa.StructArray:
        """Results from the numbers of their left and right rows."""
        numbers = [(-1, -1) if pair is None else (pair[0], -1 if pair[1] is None else pair[1]) for pair in pairs]
        lefts, rights = np.array(numbers, np.int64).T
        sides = [
            columns[name].take(pa.array(at, mask=at < 0)).flatten() for name, at in (("left", lefts), ("right", rights))
        ]
        return self._value([*sides[_LEFT], *sides[_RIGHT]], part, lefts < 0)


def _table(rows: pa.RecordBatch, arrived: Numbers, handle: Handle, key_bytes: KeyBytes) -> _Table:
    """The rows of an input among those at the indices `arrived`."""
    at = np.flatnonzero(rows.column("rel").to_numpy()[arrived] == handle.relation)
    structs = values_at(rows.column(struct_column(handle.relation)), arrived[at])
    fields = {each.name: child for each, child in zip(structs.type, structs.flatten(), strict=True)}
    return _Table(handle, at, fields, _names(fields["k"], key_bytes))


def _names(keys: pa.StructArray, key_bytes: KeyBytes) -> list[bytes | None]:
    """The packed keys of rows; None for a null key."""
    if not len(keys):
        return []
    known = valid(keys) & (valid(keys.field(0)) if keys.type.num_fields == 1 else True)
    _, firsts, codes = np.unique(codes_of([pa.array(known), *keys.flatten()]), return_index=True, return_inverse=True)
    distinct = [
        key_bytes(key or ()) if known[first] else None
        for first, key in zip(firsts.tolist(), to_rows(keys.take(pa.array(firsts))), strict=True)
    ]
    return [distinct[code] for code in codes.tolist()]


def _involved(
    left: _Table, right: _Table, foreign: Sequence[bytes | None], state: State
) -> tuple[set[bytes | None], set[bytes | None]]:
    """The packed keys of the left and right rows that rows of a batch may read or change."""
    subscribers = state.get("subscribers", {})
    lefts = set(left.names).union(*(subscribers.get(name, ()) for name in set(right.names)))
    stored = state.get("left", {})
    return lefts, {*right.names, *foreign, *(stored[name][FOREIGN] for name in lefts if name in stored)}


def _number(left: _Table, right: _Table, lefts: set[bytes | None], rights: set[bytes | None], state: State) -> None:
    """Put numbers in place of the stored keys and values of rows."""
    for row in _stored(state, "left", lefts):
        row[KEY] = row[VALUE] = left.number(row[KEY], row[VALUE])
    for row in _stored(state, "right", rights):
        row[_RIGHT_VALUE] = right.number((), row[_RIGHT_VALUE])


def _restore(left: _Table, right: _Table, lefts: set[bytes | None], rights: set[bytes | None], state: State) -> None:
    """Put keys and values in place of the numbers of rows."""
    for table, rows, part, at in (
        (left, _stored(state, "left", lefts), "k", KEY),
        (left, _stored(state, "left", lefts), "v", VALUE),
        (right, _stored(state, "right", rights), "v", _RIGHT_VALUE),
    ):
        for row, found in zip(rows, table.originals(part, [row[at][0] for row in rows]), strict=True):
            row[at] = found


def _stored(state: State, name: str, keys: set[bytes | None]) -> list[list[Any]]:
    rows = state.get(name, {})
    return [rows[key] for key in keys if key in rows]


def _given(rows: pa.RecordBatch, left: _Table, right: _Table, foreign: Sequence[bytes | None]) -> Sequence[Row]:
    """The rows of a batch with numbers as keys and values."""
    times = rows.column("ts").to_numpy().tolist()
    given: list[Any] = [None] * rows.num_rows
    for number, (at, value, name) in enumerate(zip(left.at.tolist(), left.values(), foreign, strict=True)):
        given[at] = Row(_LEFT, (number,), value, times[at], extra=None if name is None else (name,))
    for at, value, name in zip(right.at.tolist(), right.values(), right.names, strict=True):
        given[at] = Row(_RIGHT, (name,), value, times[at])
    return given


def column_foreign_key_join(stateful: Stateful, made: pa.Schema) -> ColumnForeignKeyJoin | None:
    """Return what joins by foreign key over whole columns; None if it goes row by row."""
    operator = stateful.operator
    if not isinstance(operator, ForeignKeyJoin):
        return None
    left, right = stateful.inputs
    keys: Any = (operator.key_bytes, operator.foreign_key_bytes)
    is_exact = all(isinstance(each, EncodedKey) and each.exact for each in keys)
    given = [*types_of(left.schema.value), *types_of(right.schema.value)]
    fits = given == types_of(stateful.output.schema.value) and types_of(left.schema.key) == types_of(
        stateful.output.schema.key
    )
    has_columns = left.schema.value and right.schema.value and left.schema.key and right.schema.key
    return ColumnForeignKeyJoin(stateful, operator, made) if is_exact and fits and has_columns else None
