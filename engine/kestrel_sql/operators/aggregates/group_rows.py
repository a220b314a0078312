"""What a group of an aggregate is at first, and the row that it gives."""

from __future__ import annotations

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.functions.declaration import Aggregator
from kestrel_sql.operators.group_state import COLUMNS, STATES, Group
from kestrel_sql.operators.operator import Value

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


def _failing(states: list[object], calls: Calls) -> Aggregator:
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
