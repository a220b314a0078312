"""What the aggregating operators share: the state of one group, and how rows are folded into it.

A group is the list `[timestamp, non-aggregate columns, aggregate states]`, a plain value that survives a checkpoint.
"""

from __future__ import annotations

from typing import Any

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.functions.declaration import Aggregator
from kestrel_sql.operators.operator import State, Value

Columns = tuple[int, ...]
"""Positions in a row of the columns that a result repeats."""

Calls = tuple[tuple[Aggregator, tuple[int, ...]], ...]
"""The aggregates, each with the positions of its arguments in a row."""

Group = list[Any]

TIMESTAMP, COLUMNS, STATES = 0, 1, 2


def new_group(columns: Columns, calls: Calls, timestamp: int) -> Group:
    """Make the group that no row has reached yet: null columns and initial aggregates."""
    return [timestamp, [None] * len(columns), [aggregator.initialize() for aggregator, _ in calls]]


def result(group: Group, calls: Calls) -> Value:
    """Give the group's row: non-aggregate columns, then results.

    Raises:
        QueryError: an aggregate failed; it names the function.
    """
    kept = group[STATES]
    try:
        return (*group[COLUMNS], *[call[0].result(kept[position]) for position, call in enumerate(calls)])
    except Exception as error:
        raise _failure(_failing(kept, calls), error) from error


def with_shared(old: Value, new: Value, calls: Calls) -> Value:
    """Give `old` as ksqlDB's HAVING sees it: aggregates that change in place show their new result (operators.md 11)."""
    if not any(aggregator.mutates for aggregator, _ in calls):
        return old
    first = len(new) - len(calls)
    shared = (
        now if aggregator.mutates else was
        for (aggregator, _), was, now in zip(calls, old[first:], new[first:], strict=True)
    )
    return (*old[:first], *shared)


def add(group: Group, columns: Columns, calls: Calls, value: Value, state: State) -> None:
    """Fold one row into the group.

    Raises:
        QueryError: an aggregate failed; it names the function.
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
        raise _failure(calls[position][0], error) from error


def undo(group: Group, columns: Columns, calls: Calls, value: Value) -> None:
    """Take one row out of the group.

    Raises:
        QueryError: an aggregate that failed, or that works on streams only.
    """
    group[COLUMNS] = [value[index] for index in columns]
    states = group[STATES]
    for position, (aggregator, indices) in enumerate(calls):
        if aggregator.undo is None:
            raise QueryError("an aggregate that cannot undo a row was asked to aggregate a table")
        try:
            states[position] = aggregator.undo(states[position], *(value[index] for index in indices))
        except Exception as error:
            raise _failure(aggregator, error) from error


def _failing(states: list[Any], calls: Calls) -> Aggregator:
    """The first aggregate that gives no result."""
    for state, (aggregator, _) in zip(states, calls, strict=True):
        try:
            aggregator.result(state)
        except Exception:  # noqa: BLE001 - whatever it throws, it is the one
            return aggregator
    return calls[-1][0]


def _failure(aggregator: Aggregator, error: Exception) -> QueryError:
    said = error.message if isinstance(error, EngineError) else str(error)
    return QueryError(f"{aggregator.name or 'An aggregate'} failed: {said or type(error).__name__}")


def merge(group: Group, other: Group, calls: Calls) -> None:
    """Merge `other` into the group; of non-aggregate columns the first that is not null stays (operators.md 8.2).

    Raises:
        QueryError: an aggregate failed; it names the function.
    """
    group[COLUMNS] = [
        theirs if mine is None else mine for mine, theirs in zip(group[COLUMNS], other[COLUMNS], strict=True)
    ]
    states = group[STATES]
    for position, (aggregator, _) in enumerate(calls):
        try:
            states[position] = aggregator.merge(states[position], other[STATES][position])
        except Exception as error:
            raise _failure(aggregator, error) from error


def _next_number(state: State) -> int:
    number: int = state.get("number", 0) + 1
    state["number"] = number
    return number
