"""The operator that joins a table to another table's key."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, ClassVar

import msgspec

from kestrel_sql.operators.joins.sides import SIDES
from kestrel_sql.operators.keyed_rows import KeyedRows
from kestrel_sql.operators.operator import MOST_OUTPUTS, Batch, KeyBytes, Ref, Results, Scope, State, StateEntry
from kestrel_sql.operators.row_keys import restored_row
from kestrel_sql.sql.nodes.statements import JoinType

_LEFT, _RIGHT = 0, 1

KEY, VALUE, FOREIGN = 0, 1, 2
"""Indexes into a stored left row; `FOREIGN` holds the serialised foreign key or None."""

_RIGHT_VALUE, _RIGHT_TIME = 0, 1
"""Indexes into a stored right row."""


class ForeignKeyJoin(msgspec.Struct, frozen=True, kw_only=True):
    """Join each left row with the right row of its foreign key, INNER or LEFT (rules O15).

    `key_bytes` serialises keys of the left table, `foreign_key_bytes` keys of the right table and foreign keys. The
    extra column of a left row is its foreign key, NULL if its expression failed. Where the format of the right table's
    keys `loses_null`, a row whose foreign key is NULL has no result, and the one before it stays (rule O15.5).
    """

    scope: ClassVar[Scope] = Scope.QUERY
    parts: ClassVar[Sequence[int]] = (_LEFT, _RIGHT)

    join_type: JoinType
    key_bytes: KeyBytes
    foreign_key_bytes: KeyBytes
    loses_null: bool = False

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Emit the new results of left rows, and of every left row that refers to a changed right row."""
        keys = rows.keys(self.key_bytes, self.foreign_key_bytes)
        tables = _Tables.of(rows, keys, state, self)
        for at, (side, key) in enumerate(zip(rows.sides, keys, strict=True)):
            if key is None:
                continue
            if side == _LEFT:
                tables.change_left(at, key)
            else:
                tables.change_right(at, key)
            if len(tables.results.causes) >= MOST_OUTPUTS:
                yield tables.taken()
        tables.settle()
        yield tables.taken()

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the rows of both tables."""
        for key, (_, value, _) in state.get("left", {}).items():
            yield StateEntry(part="left", side=_LEFT, key=key, value=restored_row(value))
        for key, (value, timestamp) in state.get("right", {}).items():
            yield StateEntry(part="right", side=_RIGHT, key=key, value=restored_row(value), timestamp=timestamp)


class _Tables(msgspec.Struct):
    """Both tables while a batch is processed.

    Attributes:
        rows: the rows of the batch.
        present: which of them have a value.
        foreign: the foreign keys of left rows, serialised.
        inner: whether the join is INNER.
        loses_null: whether a NULL foreign key gets no result.
        lefts: the rows of the left table by key.
        rights: the rows of the right table by key.
        subscribers: the keys of the left rows that refer to each right row.
        results: the outputs that are not taken yet.
    """

    rows: Batch
    present: Sequence[bool]
    foreign: Sequence[bytes | None]
    inner: bool
    loses_null: bool
    lefts: KeyedRows
    rights: KeyedRows
    subscribers: MutableMapping[bytes, dict[bytes, None]]
    results: Results = msgspec.field(default_factory=lambda: Results.of(_LEFT, _RIGHT, old=True))

    @classmethod
    def of(cls, rows: Batch, keys: Sequence[bytes | None], state: State, join: ForeignKeyJoin) -> _Tables:
        given = {side for side, key in zip(rows.sides, keys, strict=True) if key is not None}
        if given:
            state.setdefault("right", {})
        if _LEFT in given:
            state.setdefault("left", {})
            state.setdefault("subscribers", {})
        of_side = [
            [key if own == side else None for own, key in zip(rows.sides, keys, strict=True)]
            for side in (_LEFT, _RIGHT)
        ]
        lefts, rights = (KeyedRows(state, SIDES[side], of_side[side], made=False) for side in (_LEFT, _RIGHT))
        inner = join.join_type is JoinType.INNER
        foreign = rows.extras(join.foreign_key_bytes)
        subscribers = state.get("subscribers", {})
        return cls(rows, rows.present, foreign, inner, join.loses_null, lefts, rights, subscribers)

    def change_left(self, at: int, key: bytes) -> None:
        """Store a left row and its subscription to the right row, and emit its new result."""
        new, foreign = (at, self.foreign[at]) if self.present[at] else (None, None)
        home = self.lefts.homes[at]
        old: list[Any] | None = home.pop(key, None)
        self._subscribe(key, None if old is None else old[FOREIGN], foreign)
        if new is not None:
            home[key] = [at, at, foreign]
            if foreign is None and self.loses_null:
                return
        elif old is None:
            return
        elif self.inner:
            foreign = old[FOREIGN]
        right = self._right(foreign)
        if (new is None or (self.inner and right is None)) and not self._needs_tombstone(old, foreign, new is None):
            return
        time = self.rows.times[at]
        self._cause(at, time if right is None else max(time, right[_RIGHT_TIME]), at)
        before = None if old is None else self._right(old[FOREIGN])
        self._join(new, right, None if old is None else old[VALUE], before)

    def change_right(self, at: int, key: bytes) -> None:
        """Store a right row, and emit the new results of all left rows that refer to it."""
        home = self.rights.homes[at]
        old: list[Any] | None = home.pop(key, None)
        new: list[Any] | None = None
        if self.present[at]:
            new = [at, self.rows.times[at]]
            home[key] = new
        for name in sorted(self.subscribers.get(key, ())):
            left: Any = self.lefts.rows.get(name)
            self._cause(at, self.rows.times[at], left[KEY])
            self._join(left[VALUE], new, left[VALUE], old)

    def _right(self, foreign: bytes | None) -> list[Any] | None:
        """The row of a foreign key."""
        found: list[Any] | None = None if foreign is None else self.rights.rows.get(foreign)
        return found

    def _needs_tombstone(self, old: Sequence[object] | None, foreign: bytes | None, deleted: bool) -> bool:
        """Whether a left row without a result emits a tombstone.

        An INNER join does so at a deletion if the foreign key was not null, and at an update if it changed.
        """
        if old is None or not self.inner:
            return old is not None
        return old[FOREIGN] is not None if deleted else bool(old[FOREIGN] != foreign)

    def _cause(self, at: int, time: int, key: Ref) -> None:
        results = self.results
        results.causes.append(at)
        results.times.append(time)
        results.keys.append(key)

    def _join(self, left: Ref, right: list[Any] | None, old_left: Ref, old_right: list[Any] | None) -> None:
        """Add the result of a left and a right row, and that which it replaces."""
        for values, own, other in (
            (self.results.values, left, right),
            (self.results.old, old_left, old_right),
        ):
            is_result = own is not None and (other is not None or not self.inner)
            values[_LEFT].append(own if is_result else None)
            values[_RIGHT].append(other[_RIGHT_VALUE] if is_result and other is not None else None)

    def _subscribe(self, key: bytes, before: bytes | None, foreign: bytes | None) -> None:
        """Move a left row from the subscribers of one right row to those of another; None is no row."""
        if before == foreign:
            return
        if before is not None:
            subscribed = self.subscribers[before]
            del subscribed[key]
            if not subscribed:
                del self.subscribers[before]
        if foreign is not None:
            self.subscribers.setdefault(foreign, {})[key] = None

    def taken(self) -> Results:
        """Take the outputs."""
        found, self.results = self.results, Results.of(_LEFT, _RIGHT, old=True)
        return found

    def settle(self) -> None:
        """Put the keys and values of the batch into the state."""
        self.lefts.settle(self.rows.keys_at, KEY)
        self.lefts.settle(self.rows.values_at, VALUE)
        self.rights.settle(self.rows.values_at, _RIGHT_VALUE)
