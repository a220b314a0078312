"""What an operator's state says of its result as a table: the rows that pull queries see, read without the records that made them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch
from struct import Struct
from typing import Any

from kestrel_sql.operators.aggregates.groups import TIMESTAMP, result
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate, TableAggregate
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate, unpacked
from kestrel_sql.operators.joins.joined_row import pair
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.operators.operator import Operator, State, Value, Window
from kestrel_sql.operators.row_keys import stored_row
from kestrel_sql.operators.tables.queryable import TableStore
from kestrel_sql.sql.nodes.statements import JoinType

_BOUNDS = Struct(">qq")
_END, _START, _GROUP = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a table: the bytes of its key as the operator writes them, its value, time (ms) and window (ms)."""

    name: bytes
    value: Value
    timestamp: int
    window: Window | None = None


Names = Collection[bytes] | None
"""The keys that are asked for, as the operator writes them; None asks for all."""


def shows_table(operator: Operator) -> bool:
    """Whether the state of an operator holds everything that its result shows as a table.

    Under EMIT FINAL a state holds what is not emitted yet, and where a side may be missing, the time of a row may be that of a
    tombstone, which no state keeps.
    """
    match operator:
        case StreamAggregate() | TableAggregate() | TableStore():
            return True
        case TimeWindowAggregate(final=final) | SessionWindowAggregate(final=final):
            return not final
        case TableJoin(join_type=join_type):
            return join_type is JoinType.INNER
        case _:
            return False


@singledispatch
def contents(operator: object, state: State, names: Names, windowed: bool) -> Iterator[Entry]:
    """Give the rows of a state, those of `names` only where keys are given; `windowed` says whether names end in window bounds.

    Raises:
        TypeError: an operator of which `shows_table` is false.
    """
    raise TypeError(f"the state of {type(operator).__name__} is no table")


@contents.register
def _(operator: StreamAggregate | TableAggregate, state: State, names: Names, windowed: bool) -> Iterator[Entry]:
    for name, group in _chosen(state.get("groups", {}), names):
        yield Entry(name, result(group, operator.calls), group[TIMESTAMP])


@contents.register
def _(operator: TimeWindowAggregate, state: State, names: Names, windowed: bool) -> Iterator[Entry]:
    for start, groups in state.get("windows", {}).items():
        bounds = (start, start + operator.size_ms)
        for name, group in _chosen(unpacked(groups), names):
            yield Entry(name, result(group, operator.calls) + bounds, group[TIMESTAMP], bounds)


@contents.register
def _(operator: SessionWindowAggregate, state: State, names: Names, windowed: bool) -> Iterator[Entry]:
    for name, sessions in _chosen(state.get("sessions", {}), names):
        for session in sessions:
            start, end = session[_START], session[_END]
            yield Entry(name, (*result(session[_GROUP], operator.calls), start, end), end, (start, end))


@contents.register
def _(operator: TableStore, state: State, names: Names, windowed: bool) -> Iterator[Entry]:
    rows = state.get("rows", {})
    for whole, name, window in _named(rows, names, windowed):
        value, timestamp = rows[whole]
        row = stored_row(value) or ()
        yield Entry(name, row + (None,) * (operator.width - len(row)), timestamp, window)


@contents.register
def _(operator: TableJoin, state: State, names: Names, windowed: bool) -> Iterator[Entry]:
    lefts, rights = state.get("left", {}), state.get("right", {})
    widths = (operator.left_width, operator.right_width)
    for whole, name, window in _named(lefts, names, windowed):
        left, right = lefts[whole], rights.get(whole)
        if right is not None:
            value = pair(stored_row(left[0]), stored_row(right[0]), widths, placeholder=operator.placeholder)
            yield Entry(name, value, max(left[1], right[1]), window)


def _chosen(rows: Mapping[bytes, Any], names: Names) -> Iterator[tuple[bytes, Any]]:
    if names is None:
        yield from rows.items()
        return
    for name in names:
        if name in rows:
            yield name, rows[name]


def _named(rows: Mapping[bytes, Any], names: Names, windowed: bool) -> Iterator[tuple[bytes, bytes, Window | None]]:
    """What names the rows of a store: the bytes of the key, followed by the bounds of the window where the key has one."""
    if not windowed:
        for name, _ in _chosen(rows, names):
            yield name, name, None
        return
    for whole in rows:
        name, (start, end) = whole[: -_BOUNDS.size], _BOUNDS.unpack(whole[-_BOUNDS.size :])
        if names is None or name in names:
            yield whole, name, (start, end)
