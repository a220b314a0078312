"""Comparisons and arithmetic over Python values, as Java does them (rules L4.3, L4.4)."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.functions.interpreter.casts import EXACT, fit_decimal, wrap
from kestrel_sql.functions.interpreter.equality import alike, identity, rank
from kestrel_sql.sql.nodes.expressions import ArithmeticOp, ComparisonOp
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Decimal, SqlType
from kestrel_sql.types.time_units import DAY_MS


def compare(op: ComparisonOp, left: Any, right: Any, left_type: SqlType | None, right_type: SqlType | None) -> bool:
    """Compare two values; only IS DISTINCT FROM is true for NULL."""
    if {left_type, right_type} == {t.TIMESTAMP, t.DATE}:
        left, right = (
            x * DAY_MS if of == t.DATE and x is not None else x for x, of in ((left, left_type), (right, right_type))
        )
    left, right = alike(left, right)
    if op is ComparisonOp.IS_NOT_DISTINCT_FROM:
        return identity(left) == identity(right)
    if op is ComparisonOp.IS_DISTINCT_FROM:
        return identity(left) != identity(right)
    return left is not None and right is not None and _COMPARISONS[op](left, right)


_COMPARISONS: Mapping[ComparisonOp, Callable[[Any, Any], bool]] = {
    ComparisonOp.EQUAL: lambda left, right: identity(left) == identity(right),
    ComparisonOp.NOT_EQUAL: lambda left, right: identity(left) != identity(right),
    ComparisonOp.LESS_THAN: lambda left, right: bool(rank(left) < rank(right)),
    ComparisonOp.LESS_THAN_OR_EQUAL: lambda left, right: bool(rank(left) <= rank(right)),
    ComparisonOp.GREATER_THAN: lambda left, right: bool(rank(left) > rank(right)),
    ComparisonOp.GREATER_THAN_OR_EQUAL: lambda left, right: bool(rank(left) >= rank(right)),
}


def combine(op: ArithmeticOp, left: Any, right: Any, result: SqlType | None) -> Any:
    """Combine two numbers to one of the type `result`.

    Raises:
        ArithmeticError: a division of exact numbers by zero, or a DECIMAL result that is not exact or too large.
    """
    if result == t.DOUBLE:
        return _double(op, float(left), float(right))
    if isinstance(result, Decimal):
        return fit_decimal(_decimal(op, decimal.Decimal(left), decimal.Decimal(right), result), result)
    return wrap(_whole(op, left, right), 32 if result == t.INTEGER else 64)


def _whole(op: ArithmeticOp, left: int, right: int) -> int:
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
            return math.nan if math.isnan(left) or left == 0 else math.copysign(math.inf, left)
        case ArithmeticOp.MODULUS:
            return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)


def _decimal(op: ArithmeticOp, left: decimal.Decimal, right: decimal.Decimal, result: Decimal) -> decimal.Decimal:
    match op:
        case ArithmeticOp.ADD:
            return EXACT.add(left, right)
        case ArithmeticOp.SUBTRACT:
            return EXACT.subtract(left, right)
        case ArithmeticOp.MULTIPLY:
            return EXACT.multiply(left, right)
        case ArithmeticOp.DIVIDE:
            quotient = fit_decimal(EXACT.divide(left, right), result)
            if EXACT.multiply(quotient, right) != left:
                raise ArithmeticError("Rounding necessary")
            return quotient
        case ArithmeticOp.MODULUS:
            return EXACT.remainder(left, right)
