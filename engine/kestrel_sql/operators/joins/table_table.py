"""The join of two tables on their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.joins.joined_row import outer_sides, pair
from kestrel_sql.operators.operator import KeyBytes, Output, Row, Scope, State, Value
from kestrel_sql.operators.row_keys import identity, stored_row
from kestrel_sql.sql.nodes.statements import JoinType

_SIDES = ("left", "right")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoin:
    """Recompute the result of a key on every change of either side, even to an identical row (operators.md 14)."""

    scope: ClassVar[Scope] = Scope.KEY

    join_type: JoinType
    key_bytes: KeyBytes
    left_width: int
    right_width: int
    placeholder: bool = False

    def process(self, row: Row, state: State) -> list[Output]:
        """Store the row and give the key's new result; `old` joins the replaced row with the other side's current one."""
        if row.key is None:
            return []
        name = identity(self.key_bytes, row.key, row.window)
        own = state.setdefault(_SIDES[row.side], {})
        replaced = own.pop(name, None)
        old = row.old if row.old is not None or replaced is None else stored_row(replaced[0])
        if row.value is not None:
            own[name] = [list(row.value), row.timestamp]
        kept = state.get(_SIDES[1 - row.side], {}).get(name)
        other = None if kept is None else stored_row(kept[0])
        if not self._is_touched(row, old, other):
            return []
        timestamp = row.timestamp if kept is None else max(row.timestamp, kept[1])
        new = self._result(row.side, row.value, other)
        return [Output(row.key, new, timestamp, window=row.window, old=self._result(row.side, old, other))]

    def _is_touched(self, row: Row, old: Value | None, other: Value | None) -> bool:
        """Whether the change reaches the result: it needs the other side's row, unless the changed side is kept without one."""
        if other is not None:
            return True
        return outer_sides(self.join_type)[row.side] and (row.value is not None or old is not None)

    def _result(self, side: int, own: Value | None, other: Value | None) -> Value | None:
        """Join two rows; None where the join type wants a row that is missing."""
        left, right = (own, other) if side == 0 else (other, own)
        keeps_left, keeps_right = outer_sides(self.join_type)
        if (left is None and not keeps_right) or (right is None and not keeps_left) or (left is None and right is None):
            return None
        widths = (self.left_width, self.right_width)
        return pair(left, right, widths, right_first=self.join_type is JoinType.RIGHT, placeholder=self.placeholder)
