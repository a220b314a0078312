"""The store of a queryable table: the latest row of each key with its time, for pull queries to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.operator import KeyBytes, Output, Row, Scope, State
from kestrel_sql.operators.row_keys import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStore:
    """Keep the latest row of each key and pass every change on as it is (docs/adr/0018)."""

    scope: ClassVar[Scope] = Scope.KEY

    key_bytes: KeyBytes
    width: int
    """How many columns a row has; those that CREATE OR REPLACE added after it was stored are NULL in it."""

    def process(self, row: Row, state: State) -> list[Output]:
        """Store the row, or forget the key at a tombstone."""
        if row.key is None:
            return []
        rows = state.setdefault("rows", {})
        name = identity(self.key_bytes, row.key, row.window)
        if row.value is None:
            rows.pop(name, None)
        else:
            rows[name] = [list(row.value), row.timestamp]
        return [Output(row.key, row.value, row.timestamp, window=row.window)]
