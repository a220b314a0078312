"""The look-up of a stream's rows in a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.joins.joined_row import pair
from kestrel_sql.operators.operator import KeyBytes, Output, Row, Scope, State, Value
from kestrel_sql.operators.row_keys import identity, sized, stored_row
from kestrel_sql.sql.nodes.statements import JoinType

_STREAM, _TABLE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTableJoin:
    """Join each stream row (side 0) with the table's current row (side 1), INNER or LEFT (operators.md 13).

    `window_size_ms` is that of the result's key where the sources have time windows; other windows match on both bounds.
    """

    scope: ClassVar[Scope] = Scope.KEY

    join_type: JoinType
    key_bytes: KeyBytes
    left_width: int
    right_width: int
    placeholder: bool = False
    window_size_ms: int | None = None

    def process(self, row: Row, state: State) -> list[Output]:
        """Store a table row, or give a stream row's match; a table change emits nothing."""
        row = sized(row, self.window_size_ms)
        if row.side == _TABLE:
            self._store(row, state)
            return []
        if row.value is None:
            return []
        found = self._find(row, state)
        if found is None and self.join_type is JoinType.INNER:
            return []
        value = pair(row.value, found, (self.left_width, self.right_width), placeholder=self.placeholder)
        return [Output(row.key, value, row.timestamp, window=row.window)]

    def _store(self, row: Row, state: State) -> None:
        if row.key is None:
            return
        rows = state.setdefault("rows", {})
        name = identity(self.key_bytes, row.key, row.window)
        if row.value is None:
            rows.pop(name, None)
        else:
            rows[name] = list(row.value)

    def _find(self, row: Row, state: State) -> Value | None:
        if row.key is None:
            return None
        name = identity(self.key_bytes, row.key, row.window)
        return stored_row(state.get("rows", {}).get(name))
