"""The store of a queryable table, which pull queries read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.operator import KeyBytes, Scope, State
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator, pack_key


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStore(RowOperator):
    """Keep the latest row of each key with its timestamp, and pass every change on unchanged (docs/adr/0018)."""

    scope: ClassVar[Scope] = Scope.KEY

    key_bytes: KeyBytes
    width: int
    """The number of value columns; in rows stored before CREATE OR REPLACE added columns, those are NULL."""

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Store the row, or delete it at a tombstone, and pass it on."""
        if row.key is None:
            return []
        rows = state.setdefault("rows", {})
        packed_key = pack_key(self.key_bytes, row.key, row.window)
        if row.value is None:
            rows.pop(packed_key, None)
        else:
            rows[packed_key] = [list(row.value), row.timestamp]
        return [Output(row.key, row.value, row.timestamp, window=row.window)]
