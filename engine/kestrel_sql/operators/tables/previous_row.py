"""The store of a table: turns records per key into changes that know the previous row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.operator import KeyBytes, Output, RoundTrip, Row, Scope, State
from kestrel_sql.operators.row_keys import identity, stored_row, unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialise:
    """Keep the latest row of each key, whatever its timestamp (operators.md 1).

    Every record is passed on, tombstones of unknown keys and identical rows included; only a null key is dropped.

    `rowtime` is the column of the row's time: an old row is read with the time of the record that replaces it
    (schema-and-naming.md 2).
    """

    scope: ClassVar[Scope] = Scope.KEY

    key_bytes: KeyBytes
    round_trip: RoundTrip = unchanged
    rowtime: int | None = None

    def process(self, row: Row, state: State) -> list[Output]:
        """Store the row and pass it on with the row it replaces."""
        if row.key is None:
            return []
        rows = state.setdefault("rows", {})
        name = identity(self.key_bytes, row.key, row.window)
        old = stored_row(rows.pop(name, None))
        kept = self.round_trip(row.value)
        if kept is not None:
            rows[name] = list(kept)
        if old is not None and self.rowtime is not None:
            old = (*old[: self.rowtime], row.timestamp, *old[self.rowtime + 1 :])
        return [Output(row.key, row.value, row.timestamp, window=row.window, old=old)]
