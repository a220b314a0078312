"""The stream time of a task, for what is written without a time of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kestrel_sql.operators.operator import KeyBytes, Output, Row, Scope, State


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTime:
    """Give the tombstones of a relation the largest timestamp (ms) that its task has read (rules O17).

    The first input is the relation; the others are what the task reads, of which only the time counts.
    """

    scope: ClassVar[Scope] = Scope.TASK

    key_bytes: KeyBytes

    def process(self, row: Row, state: State) -> list[Output]:
        """Take a record's time in, or pass a row on."""
        state["time"] = time = max(state.get("time", row.timestamp), row.timestamp)
        if row.side:
            return []
        return [Output(row.key, row.value, time if row.value is None else row.timestamp, window=row.window)]
