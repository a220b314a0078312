"""Adds rows to groups, takes rows back and merges groups, one at a time."""

from __future__ import annotations

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.aggregates.group_rows import Calls, Columns, failure_of
from kestrel_sql.operators.group_state import COLUMNS, STATES, Group
from kestrel_sql.operators.operator import State, Value


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


def store(group: Group, calls: Calls) -> None:
    """Let the store change the states of a group whose results are made (rule F10.2)."""
    states = group[STATES]
    for position, (aggregator, _) in enumerate(calls):
        if aggregator.restored is not None:
            states[position] = aggregator.restored(states[position])


def _next_number(state: State) -> int:
    number: int = state.get("number", 0) + 1
    state["number"] = number
    return number
