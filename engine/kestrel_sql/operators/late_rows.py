"""Notes the rows that come too late for an operator, until whoever runs it takes the note (rules O8.2, O8.7, O12.9)."""

from __future__ import annotations

from typing import Any

import msgspec

from kestrel_sql.operators.operator import State, Window

LATE = "late"
"""The part of a state with the note; it is never stored."""

_ROW = "row"


class Late(msgspec.Struct, frozen=True):
    """Rows that came too late: how many, and of the first its timestamp, window, grace and the stream time (all ms).

    `row` is the first of them, as whoever runs the operator knows it.
    """

    count: int
    timestamp: int
    window: Window
    grace: int
    time: int
    row: Any


def note(state: State, timestamp: int, window: Window, grace: int, time: int, count: int = 1) -> None:
    """Note rows that come too late: the timestamp, window, grace and stream time (ms) of the first."""
    known = state.setdefault(
        LATE, {"count": 0, "timestamp": timestamp, "window": [*window], "grace": grace, "time": time}
    )
    known["count"] += count


def note_row(state: State, row: object) -> None:
    """Say which row was processed last. If it came too late, it is the first that did."""
    if LATE in state and _ROW not in state[LATE]:
        state[LATE][_ROW] = row


def take(state: State) -> Late | None:
    """Remove and return the note, if there is one."""
    known = state.pop(LATE, None)
    if known is None:
        return None
    start, end = known["window"]
    return Late(known["count"], known["timestamp"], (start, end), known["grace"], known["time"], known[_ROW])
