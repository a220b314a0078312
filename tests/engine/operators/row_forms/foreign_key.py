"""The operator that joins a table to another table's key."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kestrel_sql.operators.operator import Key, KeyBytes, Scope, State, Value
from kestrel_sql.operators.row_keys import restored_row
from kestrel_sql.sql.nodes.statements import JoinType
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator
from tests.engine.operators.row_forms.rows import pair

_RIGHT_SIDE = 1

KEY, VALUE, FOREIGN = 0, 1, 2
"""Indexes into a stored left row; `FOREIGN` holds the serialised foreign key or None.

A stored right row is its value and timestamp.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKeyJoin(RowOperator):
    """Join each left row with the right row of its foreign key, INNER or LEFT (rules O15).

    `key_bytes` serialises keys of the left table, `foreign_key_bytes` keys of the right table and foreign keys. A left
    row has its foreign key in `Row.extra`, None if it is null or its expression failed.
    """

    scope: ClassVar[Scope] = Scope.QUERY

    join_type: JoinType
    key_bytes: KeyBytes
    foreign_key_bytes: KeyBytes
    left_width: int
    right_width: int

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Emit the new result of a left row, or of every left row that refers to the changed right row."""
        if row.key is None:
            return []
        return self._right(row, row.key, state) if row.side == _RIGHT_SIDE else self._left(row, row.key, state)

    def _left(self, row: Row, key: Key, state: State) -> list[Output]:
        rights = state.setdefault("right", {})
        old = self._replace(row, key, state)
        if row.value is None and old is None:
            return []
        before = None if old is None else self._result(restored_row(old[VALUE]), rights.get(old[FOREIGN]))
        foreign = None if row.value is None else self._foreign(row)
        if row.value is None and old is not None and self.join_type is JoinType.INNER:
            foreign = old[FOREIGN]
        right = rights.get(foreign)
        after = None if row.value is None else self._result(row.value, right)
        if after is None and not self._needs_tombstone(old, foreign, row.value is None):
            return []
        timestamp = row.timestamp if right is None else max(row.timestamp, right[1])
        return [Output(key, after, timestamp, old=before)]

    def _needs_tombstone(self, old: list[Any] | None, foreign: bytes | None, deleted: bool) -> bool:
        """Whether a left row without a result emits a tombstone.

        An INNER join does so at a deletion if the foreign key was not null, and at an update if it changed.
        """
        if old is None:
            return False
        if self.join_type is JoinType.LEFT:
            return True
        return old[FOREIGN] is not None if deleted else bool(old[FOREIGN] != foreign)

    def _replace(self, row: Row, key: Key, state: State) -> list[Any] | None:
        """Store the left row and its subscription to the right row; return the stored row that it replaces."""
        lefts, subscribers = state.setdefault("left", {}), state.setdefault("subscribers", {})
        packed_key = self.key_bytes(key)
        old: list[Any] | None = lefts.pop(packed_key, None)
        foreign = None if row.value is None else self._foreign(row)
        subscribe(subscribers, packed_key, None if old is None else old[FOREIGN], foreign)
        if row.value is not None:
            lefts[packed_key] = [list(key), list(row.value), foreign]
        return old

    def _foreign(self, row: Row) -> bytes | None:
        if row.extra is None or row.extra[0] is None:
            return None
        return self.foreign_key_bytes(row.extra)

    def _right(self, row: Row, key: Key, state: State) -> list[Output]:
        rights = state.setdefault("right", {})
        foreign = self.foreign_key_bytes(key)
        old = rights.pop(foreign, None)
        if row.value is not None:
            rights[foreign] = [list(row.value), row.timestamp]
        outputs = []
        for packed_key in sorted(state.get("subscribers", {}).get(foreign, ())):
            left = state["left"][packed_key]
            value = restored_row(left[VALUE])
            before, after = self._result(value, old), self._result(value, rights.get(foreign))
            outputs.append(Output(tuple(left[KEY]), after, row.timestamp, old=before))
        return outputs

    def _result(self, left: Value | None, right: list[Any] | None) -> Value | None:
        if right is None and self.join_type is JoinType.INNER:
            return None
        return pair(left, None if right is None else restored_row(right[0]), (self.left_width, self.right_width))


def subscribe(
    subscribers: MutableMapping[bytes, dict[bytes, None]], key: bytes, before: bytes | None, foreign: bytes | None
) -> None:
    """Move a left row, by its packed key, from the subscribers of one right row to those of another; None is no row."""
    if before == foreign:
        return
    if before is not None:
        subscribed = subscribers[before]
        del subscribed[key]
        if not subscribed:
            del subscribers[before]
    if foreign is not None:
        subscribers.setdefault(foreign, {})[key] = None
