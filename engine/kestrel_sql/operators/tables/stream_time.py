"""The stream time of a task, for tombstones that have no timestamp of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from kestrel_sql.operators.operator import Batch, KeyBytes, Results, Scope, State, StateEntry


class StreamTime(msgspec.Struct, frozen=True, kw_only=True):
    """Set the timestamp of a relation's tombstones to the largest timestamp (ms) that the task has read (rules O17).

    Input 0 is the relation; the other inputs are the sources of the task, of which only the timestamps count.
    """

    scope: ClassVar[Scope] = Scope.TASK
    parts: ClassVar[Sequence[int]] = (0,)

    key_bytes: KeyBytes

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Advance stream time; pass the rows of the relation on."""
        results = Results.of(0)
        for at, (side, timestamp, present) in enumerate(zip(rows.sides, rows.times, rows.present, strict=True)):
            state["time"] = time = max(state.get("time", timestamp), timestamp)
            if side == 0:
                results.causes.append(at)
                results.times.append(timestamp if present else time)
                results.values[0].append(at if present else None)
        yield results.with_windows(rows.windows)

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield nothing: it keeps no rows."""
        yield from ()
