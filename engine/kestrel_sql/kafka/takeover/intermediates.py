"""The state of aggregates, as ksqlDB stores it in a changelog and as ours keep it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kestrel_sql.errors import QueryError
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.declaration import Aggregate
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.sql.nodes.expressions import FunctionCall
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import Array, SqlType, Struct

_VARIABLE = "KSQL_AGG_VARIABLE_"


def variables(calls: Sequence[FunctionCall], source: Schema, functions: Registry) -> tuple[Column, ...]:
    """Return the columns of a changelog that hold the states of aggregates.

    Raises:
        QueryError: a function keeps a state that cannot be read.
    """
    return tuple(Column(f"{_VARIABLE}{number}", _type(call, source, functions)) for number, call in enumerate(calls))


def _type(call: FunctionCall, source: Schema, functions: Registry) -> SqlType:
    bound = bind(call, scope_of(source), functions)
    if call.name.upper() in _UNKNOWN:
        raise QueryError(f"the state of {call.name} in ksqlDB cannot be read: {_UNKNOWN[call.name.upper()]}")
    if isinstance(bound.function, Aggregate) and bound.function.intermediate is not None:
        return bound.function.intermediate(tuple(child.type for child in bound.children))
    if bound.type is None:
        raise QueryError(f"the state of {call.name} has no type")
    return bound.type


def state_of(call: FunctionCall, column: Column, fresh: object, value: object) -> object:
    """Return the state of an aggregate; `fresh` is that without rows, `value` what the changelog holds."""
    if value is None:
        return fresh
    restored = _RESTORED.get(call.name.upper())
    return value if restored is None else restored(_listed(column.type, value))


def sequence_number(call: FunctionCall, state: Any) -> int:
    """Return the largest number of a row in a state, 0 if its function numbers none."""
    if call.name.upper() not in _BY_OFFSET or not state:
        return 0
    entries = [state] if not isinstance(state[0], list) else state
    return int(max(entry[0] for entry in entries))


def _listed(kind: SqlType, value: Any) -> Any:
    """The values of a struct, or of each struct of an array, in the order of its fields."""
    match kind:
        case Struct(fields):
            return [value[field.name] for field in fields]
        case Array(item):
            return [_listed(item, each) for each in value]
        case _:
            return value


def _count_first(state: list[object]) -> list[object]:
    return [state[-1], *state[:-1]]


def _newest_first(state: dict[str, int]) -> dict[str, int]:
    """A histogram whose result has its values in the order in which the changelog has them."""
    return dict(reversed(state.items()))


def _unchanged(state: object) -> object:
    return state


_BY_OFFSET = ("LATEST_BY_OFFSET", "EARLIEST_BY_OFFSET")

_RESTORED: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys((*_BY_OFFSET, "AVG", "STDDEV_SAMP", "STDDEV_SAMPLE", "ATTR"), _unchanged),
    "CORRELATION": _count_first,
    "HISTOGRAM": _newest_first,
}
"""The functions whose states are not what the changelog holds, from the lists of what its structs hold."""

_UNKNOWN: Mapping[str, str] = {"COUNT_DISTINCT": "its sketch counts other hashes of the values"}
