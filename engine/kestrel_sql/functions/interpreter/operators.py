"""Compares and computes with Python values as Java does (rules L4.3, L4.4)."""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.functions.interpreter.equality import as_comparable_numbers, equality_key, sort_key
from kestrel_sql.java.numbers import ROUNDING, java_double, round_decimal, wrap_integer
from kestrel_sql.sql.nodes.expressions import ArithmeticOp, ComparisonOp
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import can_be_equal, is_container
from kestrel_sql.types.sql_types import Decimal, SqlType
from kestrel_sql.types.time_units import DAY_MS


def compare(op: ComparisonOp, left: Any, right: Any, left_type: SqlType | None, right_type: SqlType | None) -> bool:
    """Compare two values; with a NULL only IS [NOT] DISTINCT FROM can be true.

    Raises:
        ArithmeticError: a DECIMAL is compared with NaN or an infinity.
    """
    if {left_type, right_type} == {t.TIMESTAMP, t.DATE}:
        left, right = (
            x * DAY_MS if of == t.DATE and x is not None else x for x, of in ((left, left_type), (right, right_type))
        )
    if is_container(left_type) and not can_be_equal(left_type, right_type):
        left, right = (value if value is None else side for value, side in ((left, "left"), (right, "right")))
    left, right = as_comparable_numbers(_as_written(left, right), _as_written(right, left))
    if isinstance(left, float) and isinstance(right, float):
        return _DOUBLES[op](left, right)
    if op is ComparisonOp.IS_NOT_DISTINCT_FROM:
        return equality_key(left) == equality_key(right)
    if op is ComparisonOp.IS_DISTINCT_FROM:
        return equality_key(left) != equality_key(right)
    return left is not None and right is not None and _COMPARISONS[op](left, right)


def _as_written(value: Any, other: Any) -> Any:
    """Return the DECIMAL that a DOUBLE is written as, if it is compared with a DECIMAL; any other value unchanged."""
    if not (isinstance(value, float) and isinstance(other, decimal.Decimal)):
        return value
    if not math.isfinite(value):
        raise ArithmeticError("Infinite or NaN")
    return decimal.Decimal(java_double(value))


def equals_item(value: Any, item: Any, value_type: SqlType | None, item_type: SqlType | None) -> bool:
    """Whether a value equals an item of IN, as Java's `equals` has it: NaN equals NaN, and -0.0 is not 0.0."""
    left, right = as_comparable_numbers(value, item)
    if isinstance(left, float) and isinstance(right, float):
        return equality_key(left) == equality_key(right)
    return compare(ComparisonOp.EQUAL, left, right, value_type, item_type)


def _differs(left: float, right: float) -> bool:
    return left < right or left > right


_DOUBLES: Mapping[ComparisonOp, Callable[[float, float], bool]] = {
    ComparisonOp.EQUAL: operator.eq,
    ComparisonOp.NOT_EQUAL: _differs,
    ComparisonOp.LESS_THAN: operator.lt,
    ComparisonOp.LESS_THAN_OR_EQUAL: operator.le,
    ComparisonOp.GREATER_THAN: operator.gt,
    ComparisonOp.GREATER_THAN_OR_EQUAL: operator.ge,
    ComparisonOp.IS_DISTINCT_FROM: _differs,
    ComparisonOp.IS_NOT_DISTINCT_FROM: lambda left, right: not _differs(left, right),
}
"""NaN is neither less than a number nor equal to it nor greater, and so not distinct from it."""

_COMPARISONS: Mapping[ComparisonOp, Callable[[Any, Any], bool]] = {
    ComparisonOp.EQUAL: lambda left, right: equality_key(left) == equality_key(right),
    ComparisonOp.NOT_EQUAL: lambda left, right: equality_key(left) != equality_key(right),
    ComparisonOp.LESS_THAN: lambda left, right: bool(sort_key(left) < sort_key(right)),
    ComparisonOp.LESS_THAN_OR_EQUAL: lambda left, right: bool(sort_key(left) <= sort_key(right)),
    ComparisonOp.GREATER_THAN: lambda left, right: bool(sort_key(left) > sort_key(right)),
    ComparisonOp.GREATER_THAN_OR_EQUAL: lambda left, right: bool(sort_key(left) >= sort_key(right)),
}


def compute(op: ArithmeticOp, left: Any, right: Any, result: SqlType | None) -> Any:
    """Apply an operator to two numbers; the result has the type `result`.

    Raises:
        ArithmeticError: exact division by zero, or a DECIMAL result that is inexact or too large.
    """
    if result == t.DOUBLE:
        return _double(op, float(left), float(right))
    if isinstance(result, Decimal):
        return round_decimal(_decimal(op, decimal.Decimal(left), decimal.Decimal(right), result), result)
    return wrap_integer(_integer(op, left, right), 32 if result == t.INTEGER else 64)


def _integer(op: ArithmeticOp, left: int, right: int) -> int:
    match op:
        case ArithmeticOp.ADD:
            return left + right
        case ArithmeticOp.SUBTRACT:
            return left - right
        case ArithmeticOp.MULTIPLY:
            return left * right
        case ArithmeticOp.DIVIDE:
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) is (right < 0) else -quotient
        case ArithmeticOp.MODULUS:
            rest = abs(left) % abs(right)
            return -rest if left < 0 else rest


def _double(op: ArithmeticOp, left: float, right: float) -> float:
    match op:
        case ArithmeticOp.ADD:
            return left + right
        case ArithmeticOp.SUBTRACT:
            return left - right
        case ArithmeticOp.MULTIPLY:
            return left * right
        case ArithmeticOp.DIVIDE:
            if right != 0:
                return left / right
            infinity = math.copysign(math.inf, left) * math.copysign(1, right)
            return math.nan if math.isnan(left) or math.isnan(right) or left == 0 else infinity
        case ArithmeticOp.MODULUS:
            return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)


def _decimal(op: ArithmeticOp, left: decimal.Decimal, right: decimal.Decimal, result: Decimal) -> decimal.Decimal:
    match op:
        case ArithmeticOp.ADD:
            return ROUNDING.add(left, right)
        case ArithmeticOp.SUBTRACT:
            return ROUNDING.subtract(left, right)
        case ArithmeticOp.MULTIPLY:
            return ROUNDING.multiply(left, right)
        case ArithmeticOp.DIVIDE:
            quotient = round_decimal(ROUNDING.divide(left, right), result)
            if ROUNDING.multiply(quotient, right) != left:
                raise ArithmeticError("Rounding necessary")
            return quotient
        case ArithmeticOp.MODULUS:
            whole = abs(int(ROUNDING.divide_int(left, right)))
            beyond = len(str(whole)) - result.precision
            if beyond > 0 and whole % 10**beyond:
                raise ArithmeticError("Division impossible")
            return ROUNDING.remainder(left, right)
