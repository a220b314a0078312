"""Joins tables by foreign key over whole columns of a page; the row-by-row operator says what is right.

Only subscriptions are followed row by row, because a right row meets the left rows that refer to it at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.keys import EncodedKey
from kestrel_sql.operators.joins.foreign_key import FOREIGN, KEY, VALUE, ForeignKeyJoin, subscribe
from kestrel_sql.operators.number_columns import Flags, Numbers
from kestrel_sql.operators.operator import KeyBytes, State
from kestrel_sql.spark.io.columns import Rows, from_rows, to_rows
from kestrel_sql.spark.state.column_rows import InOrder, codes_of, order_of, valid
from kestrel_sql.spark.state.keyed_columns import KeyedColumns, types_of
from kestrel_sql.spark.state.table_versions import SideRows
from kestrel_sql.sql.nodes.statements import JoinType

MAX_MATCHES = 1 << 18
"""Roughly the most outputs in memory at once; a right row may meet all left rows."""

_LEFT, _RIGHT = 0, 1

_RIGHT_VALUE, _RIGHT_TIME = 0, 1
"""Indexes into a stored right row."""

_NO_KEY = -1
"""In place of the number of a foreign key that is null."""

Numbered = dict[bytes, int]
"""Packed keys with their numbers, from 0 on."""

Meetings = Numbers
"""Rows of both tables that make a result, a column each.

The five rows are the index of the row of the batch that causes the result, the versions of the left and of the right
row, and the versions of both before that row.
"""
_CAUSE = 0


@dataclass(frozen=True, slots=True)
class _Table:
    """The versions of the rows of a table: the stored row of each key, the rows of a batch, and last of all no row.

    Attributes:
        side: the rows of the batch.
        names: the keys of the table that the batch meets.
        keys: the number of the key of each row of the batch.
        stored: the row of each key as the state holds it, None without one.
        values: the values of the versions.
        present: which versions are rows; the others are tombstones, or there is no row.
        order: the rows of the batch sorted by key, then by ordinal.
        places: the key and the place in the batch of each row, in this order.
        previous: the version before each row of the batch.
    """

    side: SideRows
    names: Numbered
    keys: Numbers
    stored: Sequence[Any]
    values: pa.StructArray
    present: Flags
    order: Numbers
    places: Numbers
    previous: Numbers

    @staticmethod
    def of(side: SideRows, names: Numbered, keys: Numbers, rows: MutableMapping[bytes, Any], value: int) -> _Table:
        """The versions of a table; `value` is the index of the value in a stored row."""
        stored = [rows.get(name) for name in names]
        own = side.fields["v"]
        before = side.stored([None if row is None else row[value] for row in stored])
        values = pa.concat_arrays([before, own, pa.nulls(1, own.type)])
        order = np.argsort(keys, kind="stable")
        previous = np.where(keys == _NO_KEY, len(values) - 1, keys)
        follows = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
        previous[order[1 + follows]] = len(stored) + order[follows]
        places = _places(keys, side.at)[order]
        return _Table(side, names, keys, stored, values, valid(values), order, places, previous)

    @property
    def now(self) -> Numbers:
        """The version that each row of the batch makes."""
        found: Numbers = len(self.stored) + np.arange(len(self.keys))
        return found

    @property
    def last(self) -> Numbers:
        """The last row of the batch of each key, in the order of their ordinals."""
        found: Numbers = np.sort(len(self.keys) - 1 - np.unique(self.keys[::-1], return_index=True)[1])
        return found

    def last_rows(self, part: str) -> Rows:
        """The keys (`k`) or values (`v`) of these rows."""
        return to_rows(self.side.fields[part].take(pa.array(self.last)))

    def store(self, rows: MutableMapping[bytes, Any], lasts: Sequence[Any]) -> None:
        """Store these rows, each behind all others, as the order of a state's keys is part of its bytes."""
        names = list(self.names)
        for number, row in zip(self.keys[self.last].tolist(), lasts, strict=True):
            rows.pop(names[number], None)
            if row is not None:
                rows[names[number]] = row

    def before(self, keys: Numbers, at: Numbers) -> Numbers:
        """The versions of keys before the rows of the batch with these indices."""
        nothing = len(self.values) - 1
        found = np.where(keys == _NO_KEY, nothing, keys)
        if len(self.keys):
            latest = self.order[np.searchsorted(self.places, _places(keys, at)) - 1]
            own = (self.keys[latest] == keys) & (self.side.at[latest] < at)
            found = np.where(own, len(self.stored) + latest, found)
        return found


class ColumnForeignKeyJoin(KeyedColumns):
    """Joins each row of the left table with the right row of its foreign key."""

    def __init__(self, stateful: Stateful, operator: ForeignKeyJoin, made: pa.Schema) -> None:
        super().__init__(stateful, made)
        self._operator = operator
        self._inner = operator.join_type is JoinType.INNER

    def run(self, rows: pa.RecordBatch, task: int, state: State) -> Iterator[pa.RecordBatch]:
        """Process rows that `can_run` accepts, update the operator's `state`, and return results by ordinal."""
        usable = self._usable(rows, self._inputs[_LEFT]) | self._usable(rows, self._inputs[_RIGHT])
        arrived = order_of(rows, usable)
        if not len(arrived):
            return
        left, right, foreign = self._tables(self._sides(rows, arrived), state)
        in_order = InOrder.of(rows, arrived)
        state.setdefault("right", {})
        if len(left.keys):
            state.setdefault("left", {})
            state.setdefault("subscribers", {})
        caused, begun = self._caused_by_left(left, right, foreign), 0
        for end, met in _caused_by_right(left, right, foreign, state):
            own = caused[:, (caused[_CAUSE] >= begun) & (caused[_CAUSE] < end)]
            found = np.concatenate([own, met], axis=1)
            yield from self._joined(in_order, left, right, found[:, np.argsort(found[_CAUSE], kind="stable")], task)
            begun = end
        _store(left, right, foreign, in_order.times, state)

    def _tables(self, sides: Sequence[SideRows], state: State) -> tuple[_Table, _Table, Numbers]:
        """Both tables, and the number of the foreign key of each version of the left one."""
        lefts, rights = sides
        left_names: Numbered = {}
        right_names: Numbered = {}
        left_keys = _numbered(lefts.fields["k"], self._operator.key_bytes, left_names)
        right_keys = _numbered(rights.fields["k"], self._operator.foreign_key_bytes, right_names)
        subscribers = state.get("subscribers", {})
        for name in right_names:
            for subscriber in subscribers.get(name, ()):
                left_names.setdefault(subscriber, len(left_names))
        own = _numbered(lefts.fields["x"], self._operator.foreign_key_bytes, right_names)
        left = _Table.of(lefts, left_names, left_keys, state.get("left", {}), VALUE)
        before = [None if row is None else row[FOREIGN] for row in left.stored]
        numbers = [_NO_KEY if name is None else right_names.setdefault(name, len(right_names)) for name in before]
        right = _Table.of(rights, right_names, right_keys, state.get("right", {}), _RIGHT_VALUE)
        deleted = ~left.present[left.now]
        foreign = np.concatenate([np.array(numbers, np.int64), np.where(deleted, _NO_KEY, own), [_NO_KEY]])
        return left, right, foreign

    def _caused_by_left(self, left: _Table, right: _Table, foreign: Numbers) -> Meetings:
        """What the left rows of the batch meet: the right row of their foreign key; INNER, deleted, of their last."""
        at, now = left.side.at, left.now
        before = left.previous
        is_row, was_row = left.present[now], left.present[before]
        is_deleted = was_row & ~is_row
        met = right.before(np.where(is_deleted & self._inner, foreign[before], foreign[now]), at)
        tombstones = was_row
        if self._inner:
            tombstones = was_row & (foreign[before] != np.where(is_deleted, _NO_KEY, foreign[now]))
        emits = tombstones | (is_row & (right.present[met] | (not self._inner)))
        return np.stack([at, now, met, before, right.before(foreign[before], at)])[:, emits]

    def _joined(self, rows: InOrder, left: _Table, right: _Table, met: Meetings, task: int) -> Iterator[pa.RecordBatch]:
        causes, lefts, rights, old_lefts, old_rights = met
        keys = from_rows([None if row is None else row[KEY] for row in left.stored], left.side.relation.schema.key)
        columns = zip(keys.flatten(), left.side.fields["k"].flatten(), strict=True)
        parts = {
            "k": self._key([pa.concat_arrays(parts) for parts in columns], lefts, np.zeros(len(lefts), dtype=bool)),
            "v": self._pairs(left, right, lefts, rights, "v"),
        }
        if self._output.has_old:
            parts["o"] = self._pairs(left, right, old_lefts, old_rights, "o")
        times = rows.times
        stored = [0 if row is None else row[_RIGHT_TIME] for row in right.stored]
        others = np.concatenate([np.array(stored, np.int64), times[right.side.at], [0]])[rights]
        own = times[causes]
        latest = np.where(right.present[rights], np.maximum(own, others), own)
        yield from self._results(rows, causes, parts, latest, task)

    def _pairs(self, left: _Table, right: _Table, lefts: Numbers, rights: Numbers, part: str) -> pa.StructArray:
        """Join versions; NULL where the join type needs a row that is missing."""
        missing = ~left.present[lefts]
        if self._inner:
            missing |= ~right.present[rights]
        columns = [table.values.take(pa.array(at)).flatten() for table, at in ((left, lefts), (right, rights))]
        return self._value([*columns[_LEFT], *columns[_RIGHT]], part, missing)


def _numbered(keys: pa.StructArray, key_bytes: KeyBytes, names: Numbered) -> Numbers:
    """The number of each key, which is added to the names; `_NO_KEY` for a null key."""
    if not len(keys):
        return np.zeros(0, np.int64)
    known = valid(keys)
    if keys.type.num_fields == 1:
        known = known & valid(keys.field(0))
    _, firsts, codes = np.unique(codes_of([pa.array(known), *keys.flatten()]), return_index=True, return_inverse=True)
    rows = to_rows(keys.take(pa.array(firsts)))
    numbers = [
        names.setdefault(key_bytes(key or ()), len(names)) if known[first] else _NO_KEY
        for first, key in zip(firsts.tolist(), rows, strict=True)
    ]
    return np.array(numbers, np.int64)[codes]


def _places(keys: Numbers, at: Numbers) -> Numbers:
    """Keys and places in a batch as one number each."""
    found: Numbers = (keys << 32) + at
    return found


def _caused_by_right(left: _Table, right: _Table, foreign: Numbers, state: State) -> Iterator[tuple[int, Meetings]]:
    """What the right rows of a share of the batch meet, and where the share ends; moves subscriptions."""
    subscribers = state.get("subscribers", {})
    lasts, nexts = foreign[left.previous], foreign[left.now]
    moved = np.flatnonzero(lasts != nexts)
    moves = dict(zip(left.side.at[moved].tolist(), moved.tolist(), strict=True))
    changes = dict(zip(right.side.at.tolist(), range(len(right.keys)), strict=True))
    lefts, rights = list(left.names), [*right.names, None]
    subscribed: dict[int, Numbers] = {}
    found: list[tuple[int, Numbers]] = []
    count = 0
    for at in sorted([*moves, *changes]):
        if at in moves:
            last, next_ = int(lasts[moves[at]]), int(nexts[moves[at]])
            subscribe(subscribers, lefts[left.keys[moves[at]]], rights[last], rights[next_])
            subscribed.pop(last, None)
            subscribed.pop(next_, None)
            continue
        key = int(right.keys[changes[at]])
        if key not in subscribed:
            names = sorted(subscribers.get(rights[key], ()))
            subscribed[key] = np.array([left.names[name] for name in names], np.int64)
        found.append((changes[at], subscribed[key]))
        count += len(subscribed[key])
        if count >= MAX_MATCHES:
            yield at + 1, _met(left, right, found)
            found, count = [], 0
    yield len(left.keys) + len(right.keys), _met(left, right, found)


def _met(left: _Table, right: _Table, found: Sequence[tuple[int, Numbers]]) -> Meetings:
    """The meetings of right rows of the batch with the left rows of these keys."""
    rows = np.repeat([row for row, _ in found], [len(keys) for _, keys in found]).astype(np.int64)
    keys = np.concatenate([np.zeros(0, np.int64), *(keys for _, keys in found)])
    at = right.side.at[rows]
    lefts = left.before(keys, at)
    return np.stack([at, lefts, right.now[rows], lefts, right.previous[rows]])


def _store(left: _Table, right: _Table, foreign: Numbers, times: Numbers, state: State) -> None:
    """Store the last row of each key."""
    names = [*right.names, None]
    foreigns = [names[number] for number in foreign[left.now[left.last]].tolist()]
    lefts = zip(left.last_rows("k"), left.last_rows("v"), foreigns, strict=True)
    left.store(state.get("left", {}), [value and [list(key or ()), list(value), name] for key, value, name in lefts])
    moments = times[right.side.at[right.last]].tolist()
    rights = zip(right.last_rows("v"), moments, strict=True)
    right.store(state["right"], [value and [list(value), time] for value, time in rights])


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
