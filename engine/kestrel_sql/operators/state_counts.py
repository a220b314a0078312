"""Tells the stream time and the number of rows of an operator's state, without the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import Any

from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import packed_length


def stream_time(state: State) -> int | None:
    """Return the stream time (ms) of an operator's state, None if it keeps none."""
    return state.get("time")


def row_count(state: State) -> int:
    """Return how many rows an operator lists for its state, without opening those that are stored in one piece."""
    return sum(_COUNTS[name](part) for name, part in state.items() if name in _COUNTS)


def _side_count(part: Sized) -> int:
    """Tables keep one row for each key; streams keep several, beside other members."""
    return sum(map(len, part["rows"].values())) if isinstance(part, dict) and "rows" in part else len(part)


_COUNTS: Mapping[str, Callable[[Any], int]] = {
    "groups": len,
    "rows": len,
    "left": _side_count,
    "right": _side_count,
    "windows": lambda windows: sum(packed_length(groups) for groups in windows.values()),
    "sessions": lambda sessions: sum(map(len, sessions.values())),
    "pending": lambda sides: sum(
        len(values) for side in sides for times in side["rows"].values() for _, _, values in times.values()
    ),
}
"""How to count the rows in each part of a state."""
