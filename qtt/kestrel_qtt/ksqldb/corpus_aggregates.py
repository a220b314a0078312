"""Aggregates that ksqlDB's test corpus defines and no release contains."""

from __future__ import annotations

from typing import Any

from kestrel_sql.functions.declaration import AggregateCall, Aggregator, aggregate
from kestrel_sql.functions.library.aggregates.sums import adder
from kestrel_sql.types.sql_types import BIGINT, INTEGER

_AB = "STRUCT<A INT, B INT>"


def _weight(value: Any) -> int:
    """Return the weight of an argument: a number itself, the length of a string, zero for NULL."""
    if value is None:
        return 0
    return len(value) if isinstance(value, str) else int(value)


def _total(initial: int, added: int = 0) -> Aggregator:
    """Sum the weights of all arguments from `initial`; `added` is added to the result only."""
    add = adder(BIGINT)

    def moved(state: int, arguments: tuple[object, ...], sign: int) -> int:
        total: int = add(state, sign * sum(map(_weight, arguments)))
        return total

    return Aggregator(
        initialize=lambda: initial,
        aggregate=lambda state, *arguments: moved(state, arguments, 1),
        undo=lambda state, *arguments: moved(state, arguments, -1),
        merge=add,
        result=lambda state: state + added,
    )


@aggregate("(value BIGINT) -> BIGINT", undoable=True, name="TEST_UDAF")
def test_udaf_bigint(call: AggregateCall) -> Aggregator:
    """Add up the values."""
    return _total(0)


@aggregate("(value INT) -> BIGINT", undoable=True, name="TEST_UDAF")
def test_udaf_int(call: AggregateCall) -> Aggregator:
    """Add up the values from the number of the setting `ksql.functions.test_udaf.init`."""
    return _total(int(call.settings.get("ksql.functions.test_udaf.init", 0)))


@aggregate("(value DOUBLE) -> DOUBLE", undoable=False, name="TEST_UDAF")
def test_udaf_double(call: AggregateCall) -> Aggregator:
    """Add up the values."""

    def add(state: float, value: float | None) -> float:
        return state + (value or 0.0)

    return Aggregator(initialize=lambda: 0.0, aggregate=add, merge=add, result=float)


@aggregate("(value STRING, literal start STRING) -> BIGINT", undoable=False, name="TEST_UDAF")
def test_udaf_string(call: AggregateCall) -> Aggregator:
    """Add up the lengths of the values, from the length of the literal."""
    return _total(_weight(call.literals[0]))


@aggregate(f"(value {_AB}) -> {_AB}", undoable=False, name="TEST_UDAF")
def test_udaf_struct(call: AggregateCall) -> Aggregator:
    """Add up the fields A and B."""
    add = adder(INTEGER)

    def summed(state: dict[str, int], value: dict[str, int | None] | None) -> dict[str, int]:
        return {name: add(state[name], (value or {}).get(name) or 0) for name in ("A", "B")}

    return Aggregator(initialize=lambda: {"A": 0, "B": 0}, aggregate=summed, merge=summed, result=dict)


@aggregate("(value BIGINT, text STRING, literal start INT, literal STRING...) -> BIGINT", undoable=False)
def multi_arg(call: AggregateCall) -> Aggregator:
    """Add up values and lengths, from the sum of the literals."""
    return _total(sum(map(_weight, call.literals)))


@aggregate("(BIGINT, STRING, STRING, STRING, literal start INT, literal STRING...) -> BIGINT", undoable=False)
def four_arg(call: AggregateCall) -> Aggregator:
    """Add up values and lengths, from the sum of the literals."""
    return _total(sum(map(_weight, call.literals)))


@aggregate("(BIGINT, STRING, STRING, STRING, INT, literal start INT, literal STRING...) -> BIGINT", undoable=False)
def five_arg(call: AggregateCall) -> Aggregator:
    """Add up values and lengths, from the sum of the literals."""
    return _total(sum(map(_weight, call.literals)))


@aggregate("(BIGINT, STRING...) -> BIGINT", undoable=False)
def var_arg(call: AggregateCall) -> Aggregator:
    """Add up the value and the lengths of all strings."""
    return _total(0)


@aggregate("(BIGINT, STRING..., literal INT, literal INT) -> BIGINT", undoable=False)
def mid_var_arg(call: AggregateCall) -> Aggregator:
    """Add up the value and the lengths of all strings; the two literals go on top of the result."""
    return _total(0, sum(map(_weight, call.literals)))


def _complete_rows() -> Aggregator:
    """Collect the first argument of the rows that have no NULL."""

    def include(state: list[object], *arguments: object) -> list[object]:
        return state if any(argument is None for argument in arguments) else [*state, arguments[0]]

    return Aggregator(initialize=list, aggregate=include, merge=lambda state, other: [*state, *other], result=list)


@aggregate("(INT, ANY...) -> ARRAY<INT>", undoable=False)
def obj_col_arg(call: AggregateCall) -> Aggregator:
    """Collect the first argument where all are present."""
    return _complete_rows()


@aggregate("(A, B, C...) -> ARRAY<A>", undoable=False)
def generic_var_arg(call: AggregateCall) -> Aggregator:
    """Collect the first argument where all are present."""
    return _complete_rows()
