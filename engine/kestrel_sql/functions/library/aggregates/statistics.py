"""Aggregates of statistics: variance, standard deviation and correlation, computed in ksqlDB's order of operations."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, inf, isnan, nan, sqrt

from kestrel_sql.functions.declaration import AggregateCall, Aggregator, aggregate
from kestrel_sql.functions.library.aggregates.sums import Add, adder, subtractor, zero
from kestrel_sql.types.sql_types import BIGINT, DOUBLE, Field, SqlType, Struct

_ONE_NUMBER = ("(value INT) -> DOUBLE", "(value BIGINT) -> DOUBLE", "(value DOUBLE) -> DOUBLE")


def _moments(arguments: tuple[SqlType | None, ...]) -> SqlType:
    return Struct((Field("SUM", arguments[0] or DOUBLE), Field("COUNT", BIGINT), Field("M2", DOUBLE)))


@aggregate(*_ONE_NUMBER, undoable=True, intermediate=_moments)
def stddev_samp(call: AggregateCall) -> Aggregator:
    """Return the sample variance (in ksqlDB this function takes no root).

    NULLs are skipped; the result is 0.0 for fewer than two values.

    Example: STDDEV_SAMP(X) over 1, 3 -> 2.0
    """
    mean = _java_integer_mean if call.arguments[0] != DOUBLE else _mean
    return _deviation(call, mean, lambda variance: variance)


@aggregate(*_ONE_NUMBER, undoable=True, intermediate=_moments)
def stddev_sample(call: AggregateCall) -> Aggregator:
    """Return the sample standard deviation; NULLs are skipped, fewer than two values give 0.0.

    Example: STDDEV_SAMPLE(X) over 1, 2, 3 -> 1.0
    """
    return _deviation(call, _mean, lambda variance: sqrt(variance) if variance >= 0 else nan)


def _mean(total: float, count: float) -> float:
    return float(total) / count


def _java_integer_mean(total: float, count: float) -> float:
    quotient = abs(total) // count
    return float(quotient if total >= 0 else -quotient)


def _deviation(
    call: AggregateCall, mean: Callable[[float, float], float], finish: Callable[[float], float]
) -> Aggregator:
    """Return the aggregator over `[sum, count, M2]`.

    `mean` is used to merge states; `finish` turns the variance into the result.
    """
    sql_type = call.arguments[0]
    add, subtract = adder(sql_type), subtractor(sql_type)

    def squared_deviation(value: float, total: float, count: float) -> float:
        """Return what the last of `count` values, included in `total`, adds to M2."""
        delta = float(value * count - total)
        return delta * delta / (count * (count - 1)) if count > 1 else 0.0

    def include(state: list[float], value: float | None) -> list[float]:
        if value is None:
            return state
        total, count = add(state[0], value), state[1] + 1
        return [total, count, state[2] + squared_deviation(value, total, count)]

    def undo(state: list[float], value: float | None) -> list[float]:
        if value is None:
            return state
        total, count, squares = state
        return [subtract(total, value), count - 1, squares - squared_deviation(value, total, count)]

    return Aggregator(
        initialize=lambda: [zero(sql_type), 0, 0.0],
        aggregate=include,
        undo=undo,
        merge=lambda state, other: _merged(state, other, add, mean),
        result=lambda state: finish(state[2] / (state[1] - 1)) if state[1] > 1 else 0.0,
    )


def _merged(state: list[float], other: list[float], add: Add, mean: Callable[[float, float], float]) -> list[float]:
    if not state[1] or not other[1]:
        return state if state[1] else other
    count = state[1] + other[1]
    delta = mean(state[0], state[1]) - mean(other[0], other[1])
    return [add(state[0], other[0]), count, state[2] + other[2] + delta * delta * state[1] * other[1] / count]


def _correlation_sums(arguments: tuple[SqlType | None, ...]) -> SqlType:
    names = ("X_SUM", "Y_SUM", "X_SQUARED_SUM", "Y_SQUARED_SUM", "XY_SUM")
    return Struct((*(Field(name, DOUBLE) for name in names), Field("COUNT", BIGINT)))


@aggregate(
    "(x INT, y INT) -> DOUBLE",
    "(x BIGINT, y BIGINT) -> DOUBLE",
    "(x DOUBLE, y DOUBLE) -> DOUBLE",
    display_name="correlation",
    undoable=True,
    intermediate=_correlation_sums,
)
def correlation(call: AggregateCall) -> Aggregator:
    """Return Pearson's correlation of the pairs without NULL.

    The result is NaN for fewer than two pairs, or if a column is constant.

    Example: CORRELATION(X, Y) over (1, 2), (2, 4) -> 1.0
    """

    def change(state: list[float], x: float | None, y: float | None, sign: int) -> list[float]:
        if x is None or y is None:
            return state
        first, second = float(x), float(y)
        terms = (1, first, second, first * first, second * second, first * second)
        return [total + sign * term for total, term in zip(state, terms, strict=True)]

    return Aggregator(
        initialize=lambda: [0, 0.0, 0.0, 0.0, 0.0, 0.0],
        aggregate=lambda state, x, y: change(state, x, y, 1),
        undo=lambda state, x, y: change(state, x, y, -1),
        merge=lambda state, other: [mine + theirs for mine, theirs in zip(state, other, strict=True)],
        result=_pearson,
    )


def _pearson(state: list[float]) -> float:
    n, x, y, xx, yy, xy = state
    if n < 2:
        return nan
    product = (n * xx - x * x) * (n * yy - y * y)
    return _divided(n * xy - x * y, sqrt(product) if product >= 0 else nan)


def _divided(numerator: float, denominator: float) -> float:
    """Divide as IEEE 754 defines it, also where Python raises."""
    if denominator:
        return numerator / denominator
    if not numerator or isnan(numerator):
        return nan
    return copysign(inf, numerator) * copysign(1.0, denominator)
