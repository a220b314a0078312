"""The operator that joins two tables on their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.joins.sides import outer_sides
from kestrel_sql.operators.operator import KeyBytes, Scope, State, Value
from kestrel_sql.operators.row_keys import restored_row
from kestrel_sql.sql.nodes.statements import JoinType
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator, pack_key
from tests.engine.operators.row_forms.rows import pair

_SIDES = ("left", "right")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoin(RowOperator):
    """Recompute the result of a key at every change of either side, even to an identical row (rules O14)."""

    scope: ClassVar[Scope] = Scope.KEY

    join_type: JoinType
    key_bytes: KeyBytes
    left_width: int
    right_width: int
    placeholder: bool = False

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Store the row and emit the key's new result; `old` joins the replaced row with the other side's row."""
        if row.key is None:
            return []
        packed_key = pack_key(self.key_bytes, row.key, row.window)
        own = state.setdefault(_SIDES[row.side], {})
        replaced = own.pop(packed_key, None)
        old = row.old if row.old is not None or replaced is None else restored_row(replaced[0])
        if row.value is not None:
            own[packed_key] = [list(row.value), row.timestamp]
        stored = state.get(_SIDES[1 - row.side], {}).get(packed_key)
        other = None if stored is None else restored_row(stored[0])
        if not self._changes_result(row, old, other):
            return []
        timestamp = row.timestamp if stored is None else max(row.timestamp, stored[1])
        new = self._result(row.side, row.value, other)
        return [Output(row.key, new, timestamp, window=row.window, old=self._result(row.side, old, other))]

    def _changes_result(self, row: Row, old: Value | None, other: Value | None) -> bool:
        """Whether a change emits: the other side has a row, or the join emits this side's rows without a match."""
        if other is not None:
            return True
        return outer_sides(self.join_type)[row.side] and (row.value is not None or old is not None)

    def _result(self, side: int, own: Value | None, other: Value | None) -> Value | None:
        """Join two rows; None if the join type needs a row that is missing."""
        left, right = (own, other) if side == 0 else (other, own)
        keeps_left, keeps_right = outer_sides(self.join_type)
        if (left is None and not keeps_right) or (right is None and not keeps_left) or (left is None and right is None):
            return None
        widths = (self.left_width, self.right_width)
        return pair(left, right, widths, right_first=self.join_type is JoinType.RIGHT, placeholder=self.placeholder)
