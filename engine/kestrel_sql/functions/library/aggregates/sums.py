"""Sums with Java's arithmetic, and the aggregates based on them: COUNT, SUM, SUM_LIST and AVG."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context
from decimal import Decimal as Number
from typing import Any

from kestrel_sql.errors import QueryError
from kestrel_sql.functions.declaration import AggregateCall, Aggregator, Fold, aggregate
from kestrel_sql.java.numbers import wrap_integer
from kestrel_sql.types.sql_types import BIGINT, DOUBLE, INTEGER, Array, Decimal, Field, SqlType, Struct

_WIDE = Context(prec=200)
"""Enough digits to add or subtract two DECIMALs exactly."""

Add = Callable[[Any, Any], Any]


def zero(sql_type: SqlType | None) -> float | Number:
    """Return the sum of no values; a DECIMAL has scale 0 until a value is added."""
    if isinstance(sql_type, Decimal):
        return Number(0)
    return 0.0 if sql_type == DOUBLE else 0


def adder(sql_type: SqlType | None) -> Add:
    """Return the addition of two values of the type; integers wrap, doubles follow IEEE 754.

    A DECIMAL sum with too many digits before the point raises QueryError, which fails the query.
    """
    if isinstance(sql_type, Decimal):
        return lambda left, right: _checked(_WIDE.add(left, right), sql_type)
    if sql_type == DOUBLE:
        return lambda left, right: left + right
    bits = 32 if sql_type == INTEGER else 64
    return lambda left, right: wrap_integer(left + right, bits)


def subtractor(sql_type: SqlType | None) -> Add:
    """Return the subtraction that undoes `adder`."""
    if isinstance(sql_type, Decimal):
        return lambda left, right: _WIDE.subtract(left, right)
    add = adder(sql_type)
    return lambda left, right: add(left, -right)


def _checked(value: Number, sql_type: Decimal) -> Number:
    digits = sql_type.precision - sql_type.scale
    if abs(value) >= Number(10) ** digits:
        raise QueryError(
            f"Numeric field overflow: A field with precision {sql_type.precision} and scale {sql_type.scale} "
            f"must round to an absolute value less than 10^{digits}. Got {value:f}"
        )
    return value


@aggregate("() -> BIGINT", "(value T) -> BIGINT", undoable=True)
def count(call: AggregateCall) -> Aggregator:
    """Count the rows, or the rows in which the argument is not NULL.

    Example: COUNT(X) over 5, NULL, 5 -> 2
    """

    def counted(arguments: tuple[object, ...]) -> int:
        return int(None not in arguments)

    return Aggregator(
        initialize=lambda: 0,
        aggregate=lambda state, *arguments: state + counted(arguments),
        undo=lambda state, *arguments: state - counted(arguments),
        merge=lambda state, other: state + other,
        result=lambda state: state,
        fold=Fold.COUNT,
    )


@aggregate(
    "(value INT) -> INT",
    "(value BIGINT) -> BIGINT",
    "(value DOUBLE) -> DOUBLE",
    "(value DECIMAL(p,s)) -> DECIMAL(p,s)",
    undoable=True,
    name="SUM",
)
def sum_(call: AggregateCall) -> Aggregator:
    """Add up the values that are not NULL, from 0.

    Integers wrap around; a DECIMAL sum that does not fit its type fails the query.

    Example: SUM(X) over 1, NULL, 2 -> 3
    """
    sql_type = call.arguments[0]
    add, subtract = adder(sql_type), subtractor(sql_type)
    return Aggregator(
        initialize=lambda: zero(sql_type),
        aggregate=lambda state, value: state if value is None else add(state, value),
        undo=lambda state, value: state if value is None else subtract(state, value),
        merge=add,
        result=lambda state: state,
        fold=None if isinstance(sql_type, Decimal) else Fold.SUM,
    )


@aggregate(
    "(list ARRAY<INT>) -> INT",
    "(list ARRAY<BIGINT>) -> BIGINT",
    "(list ARRAY<DOUBLE>) -> DOUBLE",
    display_name="sum_list",
    undoable=True,
)
def sum_list(call: AggregateCall) -> Aggregator:
    """Add up all elements of all arrays, from 0; NULL arrays and elements are skipped, integers wrap around.

    Example: SUM_LIST(X) over ARRAY[1, 2], ARRAY[3] -> 6
    """
    of = call.arguments[0]
    sql_type = of.item if isinstance(of, Array) else BIGINT
    add, subtract = adder(sql_type), subtractor(sql_type)

    def fold(step: Add, state: object, values: list[object] | None) -> object:
        for value in values or ():
            if value is not None:
                state = step(state, value)
        return state

    return Aggregator(
        initialize=lambda: zero(sql_type),
        aggregate=lambda state, values: fold(add, state, values),
        undo=lambda state, values: fold(subtract, state, values),
        merge=add,
        result=lambda state: state,
    )


def _sum_and_count(arguments: tuple[SqlType | None, ...]) -> SqlType:
    return Struct((Field("SUM", arguments[0] or DOUBLE), Field("COUNT", BIGINT)))


@aggregate(
    "(value INT) -> DOUBLE",
    "(value BIGINT) -> DOUBLE",
    "(value DOUBLE) -> DOUBLE",
    undoable=True,
    intermediate=_sum_and_count,
    display_name="avg",
)
def avg(call: AggregateCall) -> Aggregator:
    """Return the average of the values that are not NULL, or 0.0 if there are none.

    The sum wraps around as in SUM.

    Example: AVG(X) over 1, 2, NULL -> 1.5
    """
    sql_type = call.arguments[0]
    add, subtract = adder(sql_type), subtractor(sql_type)

    def change(state: list[float], value: object, step: Add, by: int) -> list[float]:
        return state if value is None else [step(state[0], value), state[1] + by]

    return Aggregator(
        initialize=lambda: [zero(sql_type), 0],
        aggregate=lambda state, value: change(state, value, add, 1),
        undo=lambda state, value: change(state, value, subtract, -1),
        merge=lambda state, other: [add(state[0], other[0]), state[1] + other[1]],
        result=lambda state: float(state[0]) / float(state[1]) if state[1] else 0.0,
        fold=Fold.AVG,
    )
