"""Lists what the state of an operator holds, key by key, for people and for the comparison of two states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from kestrel_sql.operators.aggregates.groups import result
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.suppress import TableSuppress
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate, TableAggregate
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate, unpacked
from kestrel_sql.operators.group import TIMESTAMP
from kestrel_sql.operators.joins.foreign_key import ForeignKeyJoin
from kestrel_sql.operators.joins.stream_stream import StreamStreamJoin
from kestrel_sql.operators.joins.stream_table import StreamTableJoin
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.operators.operator import State, Value, Window
from kestrel_sql.operators.row_keys import restored_row, unpack_key
from kestrel_sql.operators.state_codec import packed_length
from kestrel_sql.operators.tables.previous_row import Materialise
from kestrel_sql.operators.tables.queryable import TableStore
from kestrel_sql.operators.tables.stream_time import StreamTime
from kestrel_sql.sql.nodes.statements import JoinType

_SIDES = ("left", "right")
_END, _START, _GROUP = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """One row of a state.

    Attributes:
        part: the part of the state that holds it, such as `groups`.
        side: the input of the operator whose key and value columns it has; None for the columns of the output.
        key: the serialised key, without the window.
        value: the value columns.
        window: the window (ms), if the key has one.
        timestamp: ms since the epoch; None if the part stores none.
    """

    part: str
    side: int | None = None
    key: bytes
    value: Value | None
    window: Window | None = None
    timestamp: int | None = None


def stream_time(state: State) -> int | None:
    """Return the stream time (ms) of an operator's state, None if it keeps none."""
    return state.get("time")


def row_count(state: State) -> int:
    """Return how many rows `state_entries` lists for a state, without opening those that are stored in one piece."""
    return sum(_COUNTS[name](part) for name, part in state.items() if name in _COUNTS)


def _side_count(part: Any) -> int:
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


@singledispatch
def state_entries(operator: object, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    """Yield the rows of an operator's state; `windowed` says for each input whether its keys have windows.

    Raises:
        TypeError: the operator is unknown.
    """
    raise TypeError(f"the state of {type(operator).__name__} cannot be listed")


@state_entries.register
def _(operator: StreamAggregate | TableAggregate, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    for key, group in state.get("groups", {}).items():
        yield StateEntry(part="groups", key=key, value=result(group, operator.calls), timestamp=group[TIMESTAMP])


@state_entries.register
def _(operator: TimeWindowAggregate, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    for start, groups in state.get("windows", {}).items():
        bounds = (start, start + operator.size_ms)
        for key, group in unpacked(groups).items():
            value = result(group, operator.calls) + bounds
            yield StateEntry(part="windows", key=key, value=value, window=bounds, timestamp=group[TIMESTAMP])


@state_entries.register
def _(operator: SessionWindowAggregate, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    for key, sessions in state.get("sessions", {}).items():
        for session in sessions:
            start, end = session[_START], session[_END]
            value = (*result(session[_GROUP], operator.calls), start, end)
            yield StateEntry(part="sessions", key=key, value=value, window=(start, end), timestamp=end)


@state_entries.register
def _(operator: TableSuppress, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    for packed_key, (_, (start, end), value, timestamp) in state.get("rows", {}).items():
        key, _ = unpack_key(packed_key)
        yield StateEntry(
            part="rows", side=0, key=key, value=restored_row(value), window=(start, end), timestamp=timestamp
        )


@state_entries.register
def _(operator: TableStore, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    for packed_key, (value, timestamp) in state.get("rows", {}).items():
        key, window = _split(packed_key, windowed[0])
        row = restored_row(value) or ()
        row += (None,) * (operator.width - len(row))
        yield StateEntry(part="rows", side=0, key=key, value=row, window=window, timestamp=timestamp)


@state_entries.register
def _(operator: Materialise, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    yield from _plain(state, 0, windowed)


@state_entries.register
def _(operator: StreamTableJoin, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    yield from _plain(state, 1, windowed)


@state_entries.register
def _(operator: TableJoin, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    for side, part in enumerate(_SIDES):
        for packed_key, (value, timestamp) in state.get(part, {}).items():
            key, window = _split(packed_key, windowed[side])
            row = restored_row(value)
            yield StateEntry(part=part, side=side, key=key, value=row, window=window, timestamp=timestamp)


@state_entries.register
def _(operator: ForeignKeyJoin, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    for key, (_, value, _) in state.get("left", {}).items():
        yield StateEntry(part="left", side=0, key=key, value=restored_row(value))
    for key, (value, timestamp) in state.get("right", {}).items():
        yield StateEntry(part="right", side=1, key=key, value=restored_row(value), timestamp=timestamp)


@state_entries.register
def _(operator: StreamStreamJoin, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    for side, part in enumerate(_SIDES):
        for packed_key, rows in state.get(part, {}).get("rows", {}).items():
            key, window = _split(packed_key, windowed[side])
            for timestamp, value in rows:
                row = restored_row(value)
                yield StateEntry(part=part, side=side, key=key, value=row, window=window, timestamp=timestamp)
    for rank, pending in enumerate(state.get("pending", [])):
        side = rank if operator.join_type is JoinType.RIGHT else 1 - rank
        for packed_key, times in pending["rows"].items():
            yield from _pending(packed_key, times, side, windowed[side])


@state_entries.register
def _(operator: StreamTime, state: State, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    yield from ()


def _pending(packed_key: bytes, times: Mapping[int, Any], side: int, windowed: bool) -> Iterator[StateEntry]:
    key, window = _split(packed_key, windowed)
    for timestamp, (_, _, values) in times.items():
        for value in values:
            row = restored_row(value)
            yield StateEntry(part="pending", side=side, key=key, value=row, window=window, timestamp=timestamp)


def _plain(state: State, side: int, windowed: tuple[bool, ...]) -> Iterator[StateEntry]:
    for packed_key, value in state.get("rows", {}).items():
        key, window = _split(packed_key, windowed[side])
        yield StateEntry(part="rows", side=side, key=key, value=restored_row(value), window=window)


def _split(packed_key: bytes, windowed: bool) -> tuple[bytes, Window | None]:
    return unpack_key(packed_key) if windowed else (packed_key, None)
