"""The join of a table to another table's key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kestrel_sql.operators.joins.joined_row import pair
from kestrel_sql.operators.operator import Key, KeyBytes, Output, Row, Scope, State, Value
from kestrel_sql.operators.row_keys import stored_row
from kestrel_sql.sql.nodes.statements import JoinType

_RIGHT_SIDE = 1

_KEY, _VALUE, _FOREIGN = 0, 1, 2
"""A left row's record; `_FOREIGN` is the foreign key's bytes or None. A right row's record is its value and timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKeyJoin:
    """Join each left row with the right row its foreign key names, INNER or LEFT (operators.md 15).

    `key_bytes` names the left table's rows, `foreign_key_bytes` the right table's rows and the foreign keys, which arrive in
    `Row.extra` as the key of the right row, None where null or failed.
    """

    scope: ClassVar[Scope] = Scope.QUERY

    join_type: JoinType
    key_bytes: KeyBytes
    foreign_key_bytes: KeyBytes
    left_width: int
    right_width: int

    def process(self, row: Row, state: State) -> list[Output]:
        """Give the left row's new result, or one for each left row that names the changed right row."""
        if row.key is None:
            return []
        return self._right(row, row.key, state) if row.side == _RIGHT_SIDE else self._left(row, row.key, state)

    def _left(self, row: Row, key: Key, state: State) -> list[Output]:
        rights = state.setdefault("right", {})
        old = self._replace(row, key, state)
        if row.value is None and old is None:
            return []
        before = None if old is None else self._result(stored_row(old[_VALUE]), rights.get(old[_FOREIGN]))
        named = old[_FOREIGN] if row.value is None and old is not None else self._foreign(row)
        right = rights.get(named)
        after = None if row.value is None else self._result(row.value, right)
        if after is None and not self._was_visible(old, named, row.value is None):
            return []
        timestamp = row.timestamp if right is None else max(row.timestamp, right[1])
        return [Output(key, after, timestamp, old=before)]

    def _was_visible(self, old: list[Any] | None, named: bytes | None, deleted: bool) -> bool:
        """Whether a left row without a result needs a tombstone.

        INNER only if its old foreign key was not null, and for an update only if the foreign key is another one now.
        """
        if old is None:
            return False
        if self.join_type is JoinType.LEFT:
            return True
        return old[_FOREIGN] is not None and (deleted or old[_FOREIGN] != named)

    def _replace(self, row: Row, key: Key, state: State) -> list[Any] | None:
        """Store the left row and its subscription; give the record it replaces."""
        lefts, subscribers = state.setdefault("left", {}), state.setdefault("subscribers", {})
        name = self.key_bytes(key)
        old: list[Any] | None = lefts.pop(name, None)
        if old is not None and old[_FOREIGN] is not None:
            names = subscribers[old[_FOREIGN]]
            del names[name]
            if not names:
                del subscribers[old[_FOREIGN]]
        if row.value is not None:
            foreign = self._foreign(row)
            lefts[name] = [list(key), list(row.value), foreign]
            if foreign is not None:
                subscribers.setdefault(foreign, {})[name] = None
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
        for name in sorted(state.get("subscribers", {}).get(foreign, ())):
            left = state["left"][name]
            value = stored_row(left[_VALUE])
            before, after = self._result(value, old), self._result(value, rights.get(foreign))
            outputs.append(Output(tuple(left[_KEY]), after, row.timestamp, old=before))
        return outputs

    def _result(self, left: Value | None, right: list[Any] | None) -> Value | None:
        if right is None and self.join_type is JoinType.INNER:
            return None
        return pair(left, None if right is None else stored_row(right[0]), (self.left_width, self.right_width))
