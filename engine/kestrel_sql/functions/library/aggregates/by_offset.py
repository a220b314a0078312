"""Aggregates by order of processing: LATEST_BY_OFFSET and EARLIEST_BY_OFFSET.

Each value in the state carries the sequence number of its row, which decides when sessions merge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kestrel_sql.errors import FunctionError
from kestrel_sql.functions.declaration import AggregateCall, Aggregator, aggregate
from kestrel_sql.types.sql_types import BIGINT, STRING, Array, Field, SqlType, Struct

_ONE = ("(value T) -> T", "(value T, literal ignoreNulls BOOLEAN) -> T")
_SEVERAL = (
    "(value T, literal {0} INT) -> ARRAY<T>",
    "(value T, literal {0} INT, literal ignoreNulls BOOLEAN) -> ARRAY<T>",
)

Entry = list[Any]
"""A sequence number and a value."""


def _entry(arguments: tuple[SqlType | None, ...]) -> SqlType:
    return Struct((Field("SEQ", BIGINT), Field("VAL", arguments[0] or STRING)))


def _entries(arguments: tuple[SqlType | None, ...]) -> SqlType:
    return Array(_entry(arguments))


def _ignores_nulls(call: AggregateCall) -> bool:
    flag = call.literals[-1] if call.literals else True
    return flag if isinstance(flag, bool) else True


def _one(call: AggregateCall, wins: Callable[[Entry, Entry], bool]) -> Aggregator:
    """Return the aggregator of one value; a new entry replaces the known one if it `wins`."""
    ignores_nulls = _ignores_nulls(call)

    def better(state: Entry | None, new: Entry | None) -> Entry | None:
        if state is None or new is None:
            return state if new is None else new
        return new if wins(new, state) else state

    def include(state: Entry | None, number: int, value: object) -> Entry | None:
        return state if value is None and ignores_nulls else better(state, [number, value])

    return Aggregator(
        initialize=lambda: None,
        aggregate=include,
        merge=better,
        result=lambda state: None if state is None else state[1],
        numbered=True,
    )


def _several(call: AggregateCall, name: str, keep: Callable[[list[Entry], int], list[Entry]]) -> Aggregator:
    """Return the aggregator of up to n values; `keep` picks n of n + 1 entries in order of arrival."""
    size = next(literal for literal in call.literals if not isinstance(literal, bool))
    ignores_nulls = _ignores_nulls(call)
    if size < 1:
        raise FunctionError(f"{name} must be 1 or greater")

    def include(state: list[Entry], number: int, value: object) -> list[Entry]:
        return state if value is None and ignores_nulls else keep([*state, [number, value]], size)

    def merge(state: list[Entry], other: list[Entry]) -> list[Entry]:
        # ksqlDB keeps the lowest sequence numbers here, for LATEST too (functions.md).
        return sorted([*state, *other], key=lambda entry: entry[0])[:size]

    return Aggregator(
        initialize=list,
        aggregate=include,
        merge=merge,
        result=lambda state: [value for _, value in state],
        mutates=True,
        numbered=True,
    )


@aggregate(*_ONE, undoable=False, intermediate=_entry, name="LATEST_BY_OFFSET")
def latest_by_offset(call: AggregateCall) -> Aggregator:
    """Return the value processed last; NULLs are skipped unless `ignoreNulls` is false.

    Example: LATEST_BY_OFFSET(X) over 1, 2, NULL -> 2
    """
    return _one(call, lambda new, known: bool(new[0] > known[0]))


@aggregate(
    *(form.format("latestN") for form in _SEVERAL), undoable=False, intermediate=_entries, name="LATEST_BY_OFFSET"
)
def latest_n_by_offset(call: AggregateCall) -> Aggregator:
    """Return the last `latestN` values in order of processing; NULLs are skipped unless `ignoreNulls` is false.

    Example: LATEST_BY_OFFSET(X, 2) over 1, 2, 3 -> ARRAY[2, 3]
    """
    return _several(call, "latestN", lambda entries, size: entries[-size:])


@aggregate(*_ONE, undoable=False, intermediate=_entry, name="EARLIEST_BY_OFFSET")
def earliest_by_offset(call: AggregateCall) -> Aggregator:
    """Return the value processed first; NULLs are skipped unless `ignoreNulls` is false.

    Example: EARLIEST_BY_OFFSET(X) over NULL, 2, 3 -> 2
    """
    return _one(call, lambda new, known: bool(new[0] < known[0]))


@aggregate(
    *(form.format("earliestN") for form in _SEVERAL), undoable=False, intermediate=_entries, name="EARLIEST_BY_OFFSET"
)
def earliest_n_by_offset(call: AggregateCall) -> Aggregator:
    """Return the first `earliestN` values in order of processing; NULLs are skipped unless `ignoreNulls` is false.

    Example: EARLIEST_BY_OFFSET(X, 2) over 1, 2, 3 -> ARRAY[1, 2]
    """
    return _several(call, "earliestN", lambda entries, size: entries[:size])
