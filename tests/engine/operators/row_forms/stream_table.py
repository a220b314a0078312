"""The operator that joins a stream with a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.operator import KeyBytes, Scope, State, Value
from kestrel_sql.operators.row_keys import restored_row
from kestrel_sql.sql.nodes.statements import JoinType
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator, pack_key
from tests.engine.operators.row_forms.rows import pair, with_window_size

_STREAM, _TABLE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTableJoin(RowOperator):
    """Join each stream row (side 0) with the table's current row (side 1), INNER or LEFT (rules O13).

    If the sources have time windows, `window_size_ms` is the window size of the result's key; other windows match if
    both bounds do.
    """

    scope: ClassVar[Scope] = Scope.KEY

    join_type: JoinType
    key_bytes: KeyBytes
    left_width: int
    right_width: int
    placeholder: bool = False
    window_size_ms: int | None = None

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Store a table row, which emits nothing, or emit the match of a stream row."""
        row = with_window_size(row, self.window_size_ms)
        if row.side == _TABLE:
            self._store(row, state)
            return []
        if row.value is None:
            return []
        match = self._find(row, state)
        if match is None and self.join_type is JoinType.INNER:
            return []
        value = pair(row.value, match, (self.left_width, self.right_width), placeholder=self.placeholder)
        return [Output(row.key, value, row.timestamp, window=row.window)]

    def _store(self, row: Row, state: State) -> None:
        if row.key is None:
            return
        rows = state.setdefault("rows", {})
        packed_key = pack_key(self.key_bytes, row.key, row.window)
        if row.value is None:
            rows.pop(packed_key, None)
        else:
            rows[packed_key] = list(row.value)

    def _find(self, row: Row, state: State) -> Value | None:
        if row.key is None:
            return None
        packed_key = pack_key(self.key_bytes, row.key, row.window)
        return restored_row(state.get("rows", {}).get(packed_key))
