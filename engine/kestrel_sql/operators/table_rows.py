"""Reads the rows of a table out of the state of the operator that computes the table, for pull queries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import singledispatch
from typing import TypeVar

import msgspec

from kestrel_sql.operators.aggregates.group_rows import result
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate, TableAggregate
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate, unpacked
from kestrel_sql.operators.group_state import TIMESTAMP
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.operators.operator import Operator, State, Value, Window
from kestrel_sql.operators.row_keys import restored_row, unpack_key
from kestrel_sql.operators.tables.table_store import TableStore
from kestrel_sql.sql.nodes.statements import JoinType

_END, _START, _GROUP = 0, 1, 2


class StoredRow(msgspec.Struct, frozen=True):
    """One row of a table: its serialised key without the window, value, timestamp (ms) and window (ms)."""

    key: bytes
    value: Value
    timestamp: int
    window: Window | None = None


SerialisedKeys = Collection[bytes] | None
"""The keys to read, serialised as the operator does; None reads all."""


def holds_table(operator: Operator) -> bool:
    """Whether the state of an operator holds all rows of the table that the operator computes.

    Under EMIT FINAL the state holds only windows that are not emitted yet. In an outer join the timestamp of a row may
    be that of a tombstone, which no state keeps.
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
def table_rows(operator: object, state: State, keys: SerialisedKeys, windowed: bool) -> Iterator[StoredRow]:
    """Yield the rows in a state, or only those of `keys`; `windowed` says whether row keys end in window bounds.

    Raises:
        TypeError: `holds_table` is false for the operator.
    """
    raise TypeError(f"the state of {type(operator).__name__} does not hold a table")


@table_rows.register
def _(
    operator: StreamAggregate | TableAggregate, state: State, keys: SerialisedKeys, windowed: bool
) -> Iterator[StoredRow]:
    for key, group in _selected(state.get("groups", {}), keys):
        yield StoredRow(key, result(group, operator.calls), group[TIMESTAMP])


@table_rows.register
def _(operator: TimeWindowAggregate, state: State, keys: SerialisedKeys, windowed: bool) -> Iterator[StoredRow]:
    for start, groups in state.get("windows", {}).items():
        bounds = (start, start + operator.size_ms)
        for key, group in _selected(unpacked(groups), keys):
            yield StoredRow(key, result(group, operator.calls) + bounds, group[TIMESTAMP], bounds)


@table_rows.register
def _(operator: SessionWindowAggregate, state: State, keys: SerialisedKeys, windowed: bool) -> Iterator[StoredRow]:
    for key, sessions in _selected(state.get("sessions", {}), keys):
        for session in sessions:
            start, end = session[_START], session[_END]
            yield StoredRow(key, (*result(session[_GROUP], operator.calls), start, end), end, (start, end))


@table_rows.register
def _(operator: TableStore, state: State, keys: SerialisedKeys, windowed: bool) -> Iterator[StoredRow]:
    rows = state.get("rows", {})
    for row_key, key, window in _split_keys(rows, keys, windowed):
        value, timestamp = rows[row_key]
        row = restored_row(value) or ()
        yield StoredRow(key, row + (None,) * (operator.width - len(row)), timestamp, window)


@table_rows.register
def _(operator: TableJoin, state: State, keys: SerialisedKeys, windowed: bool) -> Iterator[StoredRow]:
    lefts, rights = state.get("left", {}), state.get("right", {})
    for row_key, key, window in _split_keys(lefts, keys, windowed):
        left, right = lefts[row_key], rights.get(row_key)
        if right is not None:
            value = (*left[0], *right[0], None) if operator.placeholder else (*left[0], *right[0])
            yield StoredRow(key, value, max(left[1], right[1]), window)


T = TypeVar("T")


def _selected(rows: Mapping[bytes, T], keys: SerialisedKeys) -> Iterator[tuple[bytes, T]]:
    if keys is None:
        yield from rows.items()
        return
    for key in keys:
        if key in rows:
            yield key, rows[key]


def _split_keys(
    rows: Mapping[bytes, object], keys: SerialisedKeys, windowed: bool
) -> Iterator[tuple[bytes, bytes, Window | None]]:
    """Yield the row key, the key and the window of each wanted row; a windowed row key is the key, then the bounds."""
    if not windowed:
        for key, _ in _selected(rows, keys):
            yield key, key, None
        return
    for row_key in rows:
        key, window = unpack_key(row_key)
        if keys is None or key in keys:
            yield row_key, key, window
