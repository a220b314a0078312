"""Compares and computes with Python values as Java does (rules L4.3, L4.4).

What these functions return is for the types of one call, and never gets NULL.
"""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.functions.values.equality import equality_key, sort_key
from kestrel_sql.java.numbers import ROUNDING, java_double, rounder, wrap_integer
from kestrel_sql.java.time.iso import PARSERS
from kestrel_sql.java.utf16 import units
from kestrel_sql.sql.nodes.expressions import ArithmeticOp, ComparisonOp
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import can_be_equal, is_container
from kestrel_sql.types.sql_types import Decimal, SqlType
from kestrel_sql.types.time_units import DAY_MS

Test = Callable[[Any, Any], bool]
Compute = Callable[[Any, Any], Any]


def comparison(op: ComparisonOp, left: SqlType | None, right: SqlType | None) -> Test:
    """Return the comparison of values of two types.

    It raises ArithmeticError where a DECIMAL is compared with NaN or an infinity, and ValueError where a STRING beside
    a date or time writes none.
    """
    test = _DOUBLES.get(op, _TESTS[op]) if t.DOUBLE in (left, right) else _TESTS[op]
    if is_container(left) and not can_be_equal(left, right):
        return lambda value, other: test(0, 1)
    of_left, of_right = _comparable(left, right, test), _comparable(right, left, test)
    if of_left is of_right is None:
        return test
    first, second = of_left or _unchanged, of_right or _unchanged
    return lambda value, other: test(first(value), second(other))


def _comparable(sql_type: SqlType | None, other: SqlType | None, test: Test) -> Callable[[Any], Any] | None:
    """Return what makes a value comparable with one of another type; None if nothing needs to."""
    is_order = test not in (operator.eq, operator.ne)
    match sql_type:
        case t.DATE if other == t.TIMESTAMP:
            return lambda days: days * DAY_MS
        case t.DOUBLE if isinstance(other, Decimal):
            return _as_written
        case t.BIGINT if other == t.DOUBLE:
            return float
        case t.STRING if other is not None and other in PARSERS:
            return PARSERS[other]
        case t.STRING if is_order:
            return units
        case t.BYTES if is_order:
            return sort_key
        case _ if is_container(sql_type):
            return equality_key
        case _:
            return None


def _unchanged(value: Any) -> Any:
    return value


def _as_written(value: float) -> decimal.Decimal:
    """Return the DECIMAL that a DOUBLE is written as."""
    if not math.isfinite(value):
        raise ArithmeticError("Infinite or NaN")
    return decimal.Decimal(java_double(value))


def item_equality(value: SqlType | None, item: SqlType | None) -> Test:
    """Return whether a value equals an item of IN, as Java's `equals` has it: NaN equals NaN, and -0.0 is not 0.0."""
    if t.DOUBLE in (value, item):
        return lambda left, right: repr(float(left)) == repr(float(right))
    return _equals if is_container(value) else comparison(ComparisonOp.EQUAL, value, item)


def _equals(left: Any, right: Any) -> bool:
    """Compare as Java's `equals`, but that a NULL in the left map equals what the right one, as large, lacks."""
    match left, right:
        case dict(), dict():
            return len(left) == len(right) and all(_equals(each, right.get(name)) for name, each in left.items())
        case list(), list():
            return len(left) == len(right) and all(map(_equals, left, right))
        case float(), float():
            return repr(left) == repr(right)
        case _:
            return bool(left == right)


def _differs(left: float, right: float) -> bool:
    return left < right or left > right


_TESTS: Mapping[ComparisonOp, Test] = {
    ComparisonOp.EQUAL: operator.eq,
    ComparisonOp.NOT_EQUAL: operator.ne,
    ComparisonOp.LESS_THAN: operator.lt,
    ComparisonOp.LESS_THAN_OR_EQUAL: operator.le,
    ComparisonOp.GREATER_THAN: operator.gt,
    ComparisonOp.GREATER_THAN_OR_EQUAL: operator.ge,
    ComparisonOp.IS_DISTINCT_FROM: operator.ne,
    ComparisonOp.IS_NOT_DISTINCT_FROM: operator.eq,
}

_DOUBLES: Mapping[ComparisonOp, Test] = {
    ComparisonOp.NOT_EQUAL: _differs,
    ComparisonOp.IS_DISTINCT_FROM: _differs,
    ComparisonOp.IS_NOT_DISTINCT_FROM: lambda left, right: not _differs(left, right),
}
"""NaN is neither less than a number nor equal to it nor greater, and so not distinct from it."""


def arithmetic(op: ArithmeticOp, left: SqlType | None, right: SqlType | None, result: SqlType | None) -> Compute:
    """Return an operator on numbers of two types, whose result has the type `result`.

    It raises ArithmeticError for an exact division by zero, and a DECIMAL result that is inexact or too large.
    """
    if isinstance(result, Decimal):
        compute = _divided(result) if op is ArithmeticOp.DIVIDE else _rest(result) if op is _MODULUS else _DECIMAL[op]
        rounded = rounder(result)
        return lambda first, second: rounded(compute(first, second))
    if result == t.DOUBLE:
        compute = _DOUBLE[op]
        if not (isinstance(left, Decimal) or isinstance(right, Decimal)):
            return compute
        return lambda first, second: compute(float(first), float(second))
    return _wrapped(_INTEGER[op], 32 if result == t.INTEGER else 64)


def negation(sql_type: SqlType | None) -> Callable[[Any], Any]:
    """Return the unary minus of a type."""
    if isinstance(sql_type, Decimal):
        return ROUNDING.minus
    if sql_type == t.DOUBLE:
        return operator.neg
    bits = 32 if sql_type == t.INTEGER else 64
    return lambda value: wrap_integer(-value, bits)


def _wrapped(compute: Compute, bits: int) -> Compute:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def wrapped(left: int, right: int) -> int:
        value = compute(left, right)
        return value if least <= value <= most else wrap_integer(value, bits)

    return wrapped


def _quotient(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _real_quotient(left: float, right: float) -> float:
    if right != 0:
        return left / right
    infinity = math.copysign(math.inf, left) * math.copysign(1, right)
    return math.nan if math.isnan(left) or left == 0 else infinity


def _real_remainder(left: float, right: float) -> float:
    return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)


def _divided(result: Decimal) -> Compute:
    rounded = rounder(result)

    def divided(left: Any, right: Any) -> decimal.Decimal:
        quotient = rounded(ROUNDING.divide(left, right))
        if ROUNDING.multiply(quotient, right) != left:
            raise ArithmeticError("Rounding necessary")
        return quotient

    return divided


def _rest(result: Decimal) -> Compute:
    def rest(left: Any, right: Any) -> decimal.Decimal:
        whole = abs(int(ROUNDING.divide_int(left, right)))
        beyond = len(str(whole)) - result.precision
        if beyond > 0 and whole % 10**beyond:
            raise ArithmeticError("Division impossible")
        return ROUNDING.remainder(left, right)

    return rest


_MODULUS = ArithmeticOp.MODULUS

_INTEGER: Mapping[ArithmeticOp, Compute] = {
    ArithmeticOp.ADD: operator.add,
    ArithmeticOp.SUBTRACT: operator.sub,
    ArithmeticOp.MULTIPLY: operator.mul,
    ArithmeticOp.DIVIDE: _quotient,
    ArithmeticOp.MODULUS: _remainder,
}

_DOUBLE: Mapping[ArithmeticOp, Compute] = {
    **_INTEGER,
    ArithmeticOp.DIVIDE: _real_quotient,
    ArithmeticOp.MODULUS: _real_remainder,
}

_DECIMAL: Mapping[ArithmeticOp, Compute] = {
    ArithmeticOp.ADD: ROUNDING.add,
    ArithmeticOp.SUBTRACT: ROUNDING.subtract,
    ArithmeticOp.MULTIPLY: ROUNDING.multiply,
}
