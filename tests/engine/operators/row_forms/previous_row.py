"""The store of a table, which adds the previous row to each change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.operator import KeyBytes, Scope, State
from kestrel_sql.operators.row_keys import restored_row
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator, pack_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialise(RowOperator):
    """Keep the latest row of each key, whatever its timestamp (rules O1).

    The operator passes on every record, including tombstones of unknown keys and identical rows, and drops only null
    keys. `rowtime` is the index of the ROWTIME column: in an old row it shows the time of the record that replaces it
    (rules N2).
    """

    scope: ClassVar[Scope] = Scope.KEY

    key_bytes: KeyBytes
    rowtime: int | None = None

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Store the row and pass it on with the row that it replaces."""
        if row.key is None:
            return []
        rows = state.setdefault("rows", {})
        packed_key = pack_key(self.key_bytes, row.key, row.window)
        old = restored_row(rows.pop(packed_key, None))
        stored = row.value
        if stored is not None:
            rows[packed_key] = list(stored)
        if old is not None and self.rowtime is not None:
            old = (*old[: self.rowtime], row.timestamp, *old[self.rowtime + 1 :])
        return [Output(row.key, row.value, row.timestamp, window=row.window, old=old)]
