"""Compares and computes with Python values as Java does (rules L4.3, L4.4).

What these functions return is for the types of one call, and never gets NULL.
"""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.functions.declaration import ColumnBody
from kestrel_sql.functions.values.equality import equality_key, sort_key
from kestrel_sql.java.numbers import ROUNDING, java_double, rounder, wrap_integer
from kestrel_sql.java.time.iso import PARSERS
from kestrel_sql.java.utf16 import units
from kestrel_sql.sql.nodes.expressions import ArithmeticOp, ComparisonOp
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import can_be_equal, is_container
from kestrel_sql.types.sql_types import Decimal, SqlType
from kestrel_sql.types.time_units import DAY_MS

T = TypeVar("T")

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


def compared_columns(op: ComparisonOp, left: SqlType | None, right: SqlType | None) -> ColumnBody | None:
    """Return the comparison of whole columns (see `ColumnBody`), false for NULL; None if there is none."""
    kernel = _KERNELS.get(op)
    if kernel is None or left is None or right is None:
        return None
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return partial(_compared_decimals, kernel) if {left, right}.isdisjoint(_NO_DECIMALS) else None
    if t.DOUBLE in (left, right):
        # NaN differs from everything in Arrow, and from nothing here.
        if op is ComparisonOp.NOT_EQUAL or not {left, right} <= {t.INTEGER, t.DOUBLE}:
            return None
    elif not ({left, right} <= {t.INTEGER, t.BIGINT} or (left == right and left in _COMPARED)):
        return None
    is_order = left == t.STRING and kernel not in ("equal", "not_equal")

    def compare(first: object, second: object) -> object:
        if is_order and not late.texts.is_ascii(first, second):
            return None
        return late.pc.fill_null(getattr(late.pc, kernel)(first, second), False)

    return compare


def _compared_decimals(kernel: str, first: ArrowArray, second: ArrowArray) -> ArrowArray | None:
    left, right = late.numbers.unscaled(first), late.numbers.unscaled(second)
    if left is None or right is None:
        return None
    scale = max(left[1], right[1])
    if any(late.numbers.largest(values) > 10 ** (18 - scale + own) for values, own in (left, right)):
        return None
    found = getattr(late.np, kernel)(*(values * 10 ** (scale - own) for values, own in (left, right)))
    return late.pc.fill_null(late.numbers.array_of(found, first, second), False)


def contained_columns(value: SqlType | None, known: frozenset[object]) -> Callable[..., object] | None:
    """Return whether the values of a column are some constants; None if there is no column body."""
    if value not in (t.INTEGER, t.BIGINT, t.STRING):
        return None
    return lambda array: late.pc.is_in(array, value_set=late.pa.array([*known], array.type))


_KERNELS: Mapping[ComparisonOp, str] = {
    ComparisonOp.EQUAL: "equal",
    ComparisonOp.NOT_EQUAL: "not_equal",
    ComparisonOp.LESS_THAN: "less",
    ComparisonOp.LESS_THAN_OR_EQUAL: "less_equal",
    ComparisonOp.GREATER_THAN: "greater",
    ComparisonOp.GREATER_THAN_OR_EQUAL: "greater_equal",
}
_COMPARED = frozenset((t.STRING, t.BOOLEAN, t.DATE, t.TIME, t.TIMESTAMP))
_NO_DECIMALS = frozenset((t.DOUBLE, t.STRING))


def _comparable(sql_type: SqlType | None, other: SqlType | None, test: Test) -> Callable[..., object] | None:
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


def _unchanged(value: T) -> T:
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


def _equals(left: object, right: object) -> bool:
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


def arithmetic_columns(
    op: ArithmeticOp, left: SqlType | None, right: SqlType | None, result: SqlType | None
) -> ColumnBody | None:
    """Return an operator on whole columns (see `ColumnBody`) without NULL; None if there is none."""
    kernel = _ARITHMETIC_KERNELS.get(op)
    if isinstance(result, Decimal):
        if op in (ArithmeticOp.DIVIDE, ArithmeticOp.MODULUS) or kernel is None:
            return None
        return partial(_decimal_columns, op, kernel, result)
    if result == t.DOUBLE:
        return partial(_double_columns, op) if {left, right} <= {t.INTEGER, t.DOUBLE} else None
    if op is ArithmeticOp.MODULUS:
        return partial(_remainder_columns, result)
    return None if kernel is None else partial(_integer_columns, kernel, result)


def negation_columns(sql_type: SqlType | None) -> Callable[[object], object] | None:
    """Return the unary minus of a column; None if there is no column body."""
    if sql_type in (t.INTEGER, t.BIGINT):
        return lambda array: late.pc.negate(array)
    return (lambda array: late.pc.negate(array)) if sql_type == t.DOUBLE else None


def _integer_columns(kernel: str, result: SqlType | None, first: ArrowArray, second: ArrowArray) -> ArrowArray:
    kind = late.pa.int32() if result == t.INTEGER else late.pa.int64()
    # The kernels that are not checked wrap as Java does.
    return getattr(late.pc, kernel)(late.pc.cast(first, kind), late.pc.cast(second, kind))


def _remainder_columns(result: SqlType | None, first: ArrowArray, second: ArrowArray) -> ArrowArray | None:
    values, divisors = late.numbers.values_of(first), late.numbers.values_of(second)
    if not late.np.all(divisors):
        return None
    kind = late.np.int32 if result == t.INTEGER else late.np.int64
    return late.pa.array(late.np.fmod(values, divisors, dtype=kind))


def _double_columns(op: ArithmeticOp, first: ArrowArray, second: ArrowArray) -> ArrowArray:
    values, others = late.numbers.values_of(first), late.numbers.values_of(second)
    with late.np.errstate(all="ignore"):
        return late.pa.array(getattr(late.np, _DOUBLE_KERNELS[op])(values, others, dtype=late.np.float64))


def _decimal_columns(
    op: ArithmeticOp, kernel: str, result: Decimal, first: ArrowArray, second: ArrowArray
) -> ArrowArray | None:
    left, right = late.numbers.unscaled(first), late.numbers.unscaled(second)
    if left is None or right is None:
        return None
    (values, scale), (others, other_scale) = left, right
    if op is ArithmeticOp.MULTIPLY:
        scale += other_scale
        if late.numbers.largest(values) * late.numbers.largest(others) > _SAFE:
            return None
    else:
        common = max(scale, other_scale)
        own, other = 10 ** (common - scale), 10 ** (common - other_scale)
        if late.numbers.largest(values) * own + late.numbers.largest(others) * other > _SAFE:
            return None
        values, others, scale = values * own, others * other, common
    found = late.numbers.rescaled(getattr(late.np, kernel)(values, others), scale, result.scale)
    return None if found is None else late.numbers.decimals(found, result.precision, result.scale)


_SAFE = 10**18
_ARITHMETIC_KERNELS: Mapping[ArithmeticOp, str] = {
    ArithmeticOp.ADD: "add",
    ArithmeticOp.SUBTRACT: "subtract",
    ArithmeticOp.MULTIPLY: "multiply",
}
_DOUBLE_KERNELS: Mapping[ArithmeticOp, str] = {
    **_ARITHMETIC_KERNELS,
    ArithmeticOp.DIVIDE: "divide",
    ArithmeticOp.MODULUS: "fmod",
}


def negation(sql_type: SqlType | None) -> Callable[..., object]:
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

    def divided(left: decimal.Decimal | int, right: decimal.Decimal | int) -> decimal.Decimal:
        quotient = rounded(ROUNDING.divide(left, right))
        if ROUNDING.multiply(quotient, right) != left:
            raise ArithmeticError("Rounding necessary")
        return quotient

    return divided


def _rest(result: Decimal) -> Compute:
    def rest(left: decimal.Decimal | int, right: decimal.Decimal | int) -> decimal.Decimal:
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
