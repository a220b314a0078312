"""The stream time of a task, for tombstones that have no timestamp of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.operator import KeyBytes, Scope, State
from tests.engine.operators.row_forms.row_operator import Output, Row, RowOperator


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTime(RowOperator):
    """Set the timestamp of a relation's tombstones to the largest timestamp (ms) that the task has read (rules O17).

    Input 0 is the relation; the other inputs are the sources of the task, of which only the timestamps count.
    """

    scope: ClassVar[Scope] = Scope.TASK

    key_bytes: KeyBytes

    def process_row(self, row: Row, state: State) -> list[Output]:
        """Advance stream time; pass a row of the relation on."""
        state["time"] = time = max(state.get("time", row.timestamp), row.timestamp)
        if row.side:
            return []
        return [Output(row.key, row.value, time if row.value is None else row.timestamp, window=row.window)]
