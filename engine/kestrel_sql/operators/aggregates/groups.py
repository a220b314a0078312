"""Adds rows to groups, takes rows back and merges groups, for all aggregating operators."""

from __future__ import annotations

from typing import Any

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.functions.declaration import Aggregator
from kestrel_sql.operators.group import COLUMNS, STATES, Group
from kestrel_sql.operators.operator import State, Value

Columns = tuple[int, ...]
"""Indexes of the non-aggregate columns in an input row."""

Calls = tuple[tuple[Aggregator, tuple[int, ...]], ...]
"""The aggregates, each with the indexes of its arguments in an input row."""


def new_group(columns: Columns, calls: Calls, timestamp: int | None) -> Group:
    """Return a group without rows: null columns and initial aggregates."""
    return [timestamp, [None] * len(columns), [aggregator.initialize() for aggregator, _ in calls]]


def result(group: Group, calls: Calls) -> Value:
    """Return the group's row: the non-aggregate columns, then the results of the aggregates.

    Raises:
        QueryError: an aggregate failed; the message names the function.
    """
    states = group[STATES]
    try:
        return (*group[COLUMNS], *[call[0].result(states[position]) for position, call in enumerate(calls)])
    except Exception as error:
        raise failure_of(_failing(states, calls), error) from error


def with_shared(old: Value, new: Value, calls: Calls) -> Value:
    """Return `old` as ksqlDB's HAVING sees it: aggregates that change in place show their new result (rules O11)."""
    if not any(aggregator.mutates for aggregator, _ in calls):
        return old
    first = len(new) - len(calls)
    shared = (
        now if aggregator.mutates else was
        for (aggregator, _), was, now in zip(calls, old[first:], new[first:], strict=True)
    )
    return (*old[:first], *shared)


def add(group: Group, columns: Columns, calls: Calls, value: Value, state: State) -> None:
    """Add one row to the group.

    Raises:
        QueryError: an aggregate failed; the message names the function.
    """
    group[COLUMNS] = [value[index] for index in columns]
    states = group[STATES]
    position = 0
    try:
        for position, (aggregator, indices) in enumerate(calls):
            if aggregator.numbered:
                states[position] = aggregator.aggregate(
                    states[position], _next_number(state), *[value[index] for index in indices]
                )
            elif len(indices) == 1:
                states[position] = aggregator.aggregate(states[position], value[indices[0]])
            else:
                states[position] = aggregator.aggregate(states[position], *[value[index] for index in indices])
    except Exception as error:
        raise failure_of(calls[position][0], error) from error


def undo(group: Group, columns: Columns, calls: Calls, value: Value) -> None:
    """Remove one row from the group.

    Raises:
        QueryError: an aggregate failed or cannot undo a row.
    """
    group[COLUMNS] = [value[index] for index in columns]
    states = group[STATES]
    for position, (aggregator, indices) in enumerate(calls):
        if aggregator.undo is None:
            raise QueryError(f"{aggregator.name or 'an aggregate'} cannot aggregate a table: it cannot undo a row")
        try:
            states[position] = aggregator.undo(states[position], *(value[index] for index in indices))
        except Exception as error:
            raise failure_of(aggregator, error) from error


def _failing(states: list[Any], calls: Calls) -> Aggregator:
    """The first aggregate whose result fails."""
    for state, (aggregator, _) in zip(states, calls, strict=True):
        try:
            aggregator.result(state)
        except Exception:  # noqa: BLE001 - any error means that this one fails
            return aggregator
    return calls[-1][0]


def failure_of(aggregator: Aggregator, error: Exception) -> QueryError:
    """Return the error of a query whose aggregate failed."""
    reason = error.message if isinstance(error, EngineError) else str(error)
    return QueryError(f"{aggregator.name or 'An aggregate'} failed: {reason or type(error).__name__}")


def merge(group: Group, other: Group, calls: Calls) -> None:
    """Merge `other` into the group; a non-aggregate column keeps its value unless it is null (rules O8.2).

    Raises:
        QueryError: an aggregate failed; the message names the function.
    """
    group[COLUMNS] = [
        theirs if mine is None else mine for mine, theirs in zip(group[COLUMNS], other[COLUMNS], strict=True)
    ]
    states = group[STATES]
    for position, (aggregator, _) in enumerate(calls):
        try:
            states[position] = aggregator.merge(states[position], other[STATES][position])
        except Exception as error:
            raise failure_of(aggregator, error) from error


def _next_number(state: State) -> int:
    number: int = state.get("number", 0) + 1
    state["number"] = number
    return number
