"""Functions that round numbers and pick the smallest or largest."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray, later
from kestrel_sql.functions.declaration import CallTypes, Nulls, scalar
from kestrel_sql.functions.values.casts import saturating_int
from kestrel_sql.functions.values.equality import sort_key
from kestrel_sql.java import numbers
from kestrel_sql.java.numbers import ROUNDING, java_double, wrap_integer
from kestrel_sql.types.conversion import decimal_of, wider_decimal
from kestrel_sql.types.sql_types import INTEGER, Decimal, SqlType

T = TypeVar("T")

_MOST_PLACES = 8 * (2**26 + 1)
"""So many digits more or less than a number has, Java's BigInteger cannot count: 4 bits a digit, in 2^26 words."""

_NO_FRACTION = float(2**52)
"""From this value on every DOUBLE is an integer."""


def _whole(arguments: tuple[SqlType | None, ...]) -> SqlType:
    present = arguments[0]
    size = present if isinstance(present, Decimal) else Decimal(1, 0)
    return Decimal(max(1, size.precision - size.scale), 0, own_scales=size.scale > 0)


def _truncated(arguments: tuple[SqlType | None, ...]) -> SqlType:
    return replace(decimal_of(_whole(arguments)), own_scales=False)


def _widest(arguments: tuple[SqlType | None, ...]) -> SqlType:
    sizes = [decimal_of(argument) for argument in arguments if argument is not None]
    widest = sizes[0]
    for size in sizes[1:]:
        widest = wider_decimal(widest, size)
    return replace(widest, own_scales=any(size.own_scales or size.scale != widest.scale for size in sizes))


_WHOLE = ("(val INT) -> INT", "(val BIGINT) -> BIGINT")


def _has_fraction(value: float) -> bool:
    """Whether a DOUBLE may have a fraction; zeros, which may be negative, count as without."""
    return value != 0 and abs(value) < _NO_FRACTION


def _abs_columns(types: CallTypes, array: ArrowArray) -> ArrowArray:
    return late.pc.abs(array)  # The kernel that is not checked keeps the smallest INT as Java does.


@scalar(
    *_WHOLE,
    "(val DOUBLE) -> DOUBLE",
    "(val DECIMAL(p,s)) -> DECIMAL(p,s)",
    display_name="Abs",
    with_types=True,
    columns=_abs_columns,
)
def abs_(types: CallTypes, value: float | decimal.Decimal) -> float | decimal.Decimal:
    """Return the absolute value; the smallest INT and BIGINT stay negative, as in Java.

    Example: ABS(-3) -> 3
    """
    if isinstance(value, decimal.Decimal):
        return ROUNDING.abs(value)
    return wrap_integer(abs(value), 32 if types.returns == INTEGER else 64) if isinstance(value, int) else abs(value)


@scalar(*_WHOLE, name="CEIL", display_name="Ceil", columns=lambda array: array)
def ceil_whole(value: int) -> int:
    """Return an integer unchanged.

    Example: CEIL(5) -> 5
    """
    return value


@scalar("(val DOUBLE) -> DOUBLE", name="CEIL", display_name="Ceil", columns=later(late.pc, "ceil"))
def ceil_double(value: float) -> float:
    """Round up to an integer; NaN and the infinities stay.

    Example: CEIL(1.2E0) -> 2E0
    """
    return math.copysign(float(math.ceil(value)), value) if _has_fraction(value) else value


def _at_own_size(arguments: tuple[SqlType | None, ...]) -> SqlType:
    """Return the type of the argument, which a value that rounding adds a digit to no longer fits."""
    present = arguments[0]
    return replace(present, own_scales=True) if isinstance(present, Decimal) else Decimal(1, 0)


def _at_scale(value: decimal.Decimal, sql_type: SqlType) -> decimal.Decimal:
    rounded = value.quantize(decimal.Decimal(1).scaleb(-decimal_of(sql_type).scale), context=ROUNDING)
    return rounded or rounded.copy_abs()


@scalar("(val DECIMAL(p,s)) -> DECIMAL", name="CEIL", display_name="Ceil", returns=_at_own_size, with_types=True)
def ceil_decimal(types: CallTypes, value: decimal.Decimal) -> decimal.Decimal:
    """Round up to an integer and keep the type, even where the result has a digit more than it.

    Example: CEIL(1.2) -> 2.0
    """
    return _at_scale(_scaled(value, 0, decimal.ROUND_CEILING), types.returns)


@scalar(*_WHOLE, name="FLOOR", display_name="Floor", columns=lambda array: array)
def floor_whole(value: int) -> int:
    """Return an integer unchanged.

    Example: FLOOR(5) -> 5
    """
    return value


@scalar("(val DOUBLE) -> DOUBLE", name="FLOOR", display_name="Floor", columns=later(late.pc, "floor"))
def floor_double(value: float) -> float:
    """Round down to an integer; NaN and the infinities stay.

    Example: FLOOR(-1.2E0) -> -2E0
    """
    return float(math.floor(value)) if _has_fraction(value) else value


@scalar("(val DECIMAL(p,s)) -> DECIMAL", name="FLOOR", display_name="Floor", returns=_at_own_size, with_types=True)
def floor_decimal(types: CallTypes, value: decimal.Decimal) -> decimal.Decimal:
    """Round down to an integer and keep the type, even where the result has a digit more than it.

    Example: FLOOR(1.2) -> 1.0
    """
    return _at_scale(_scaled(value, 0, decimal.ROUND_FLOOR), types.returns)


def _sign_columns(array: ArrowArray) -> ArrowArray:
    values = late.numbers.values_of(array)
    return late.numbers.array_of((values > 0).astype(late.np.int32) - (values < 0), array, kind=late.pa.int32())


@scalar(
    "(value INT) -> INT",
    "(value BIGINT) -> INT",
    "(value DOUBLE) -> INT",
    display_name="sign",
    columns=_sign_columns,
)
def sign(value: float) -> int:
    """Return the sign of a number: -1, 0 or 1; 0 for NaN.

    Example: SIGN(-7) -> -1
    """
    return (value > 0) - (value < 0)


@scalar("(val INT NOT NULL) -> BIGINT", "(val BIGINT NOT NULL) -> BIGINT", name="ROUND", display_name="Round")
def round_whole(value: int) -> int:
    """Return an integer as a BIGINT; a NULL is an error.

    Example: ROUND(5) -> 5
    """
    return value


@scalar("(val DOUBLE) -> BIGINT", name="ROUND", display_name="Round")
def round_double(value: float) -> int:
    """Round to the nearest BIGINT, ties up; values out of range become the nearest BIGINT, NaN becomes 0.

    Example: ROUND(-2.5E0) -> -2
    """
    if not _has_fraction(value):
        return saturating_int(value, 64)
    down = math.floor(value)
    return down + (value - down >= 0.5)


@scalar("(val DECIMAL(p,s)) -> DECIMAL", name="ROUND", display_name="Round", returns=_whole)
def round_decimal(value: decimal.Decimal) -> decimal.Decimal:
    """Round to an integer, ties up; the result may have a digit more than its type.

    Example: ROUND(-2.5) -> CAST(-2 AS DECIMAL(1, 0))
    """
    return _scaled(value, 0, _half(value)) or decimal.Decimal(0)


def _scaled(value: decimal.Decimal, places: int, rounding: str) -> decimal.Decimal:
    scale = -int(value.as_tuple().exponent)
    if value and abs(places - scale) >= _MOST_PLACES:
        raise ArithmeticError("BigInteger would overflow supported range")
    if places >= scale:
        return value
    # Left of the digit before the first one, every place gives the same.
    place = max(places, min(0, -value.adjusted() - 2))
    return value.quantize(decimal.Decimal(1).scaleb(-place), rounding=rounding, context=ROUNDING)


def _half(value: decimal.Decimal) -> str:
    return decimal.ROUND_HALF_UP if value > 0 else decimal.ROUND_HALF_DOWN


@scalar("(val DOUBLE, decimalPlaces INT) -> DOUBLE", name="ROUND", display_name="Round")
def round_places(value: float, places: int) -> float:
    """Round to `decimalPlaces` digits after the point, or before it if that is negative; ties of negative values go up.

    Example: ROUND(1.2345E0, 2) -> 1.23E0
    """
    exact = decimal.Decimal(java_double(value))
    if not exact.is_finite():
        raise ArithmeticError("Infinite or NaN")
    return _real(_scaled(exact, places, _half(exact)))


def _real(value: decimal.Decimal) -> float:
    """Return the DOUBLE of a BigDecimal, which has no minus zero."""
    return float(value) or 0.0


@scalar(
    "(val DECIMAL(p,s), decimalPlaces INT) -> DECIMAL",
    name="ROUND",
    display_name="Round",
    returns=_at_own_size,
    with_types=True,
)
def round_decimal_places(types: CallTypes, value: decimal.Decimal, places: int) -> decimal.Decimal:
    """Round to `decimalPlaces` digits after the point and keep the type, even where the result has a digit more.

    Ties of negative values go up.

    Example: ROUND(12.345, 1) -> 12.300
    """
    return _at_scale(_scaled(value, places, _half(value)), types.returns)


@scalar("(val INT) -> BIGINT", "(val BIGINT) -> BIGINT", "(val DOUBLE) -> BIGINT", name="TRUNC", display_name="trunc")
def trunc_whole(value: float) -> int:
    """Drop the fraction; values out of range become the nearest BIGINT, NaN becomes 0.

    Example: TRUNC(-2.7E0) -> -2
    """
    return saturating_int(value, 64)


@scalar("(val DECIMAL(p,s)) -> DECIMAL", name="TRUNC", display_name="trunc", returns=_truncated, with_types=True)
def trunc_decimal(types: CallTypes, value: decimal.Decimal) -> decimal.Decimal:
    """Drop the fraction.

    Example: TRUNC(-2.7) -> CAST(-2 AS DECIMAL(1, 0))
    """
    return numbers.round_decimal(value.to_integral_value(decimal.ROUND_DOWN, ROUNDING), types.returns)


@scalar("(val DOUBLE, decimalPlaces INT) -> DOUBLE", name="TRUNC", display_name="trunc")
def trunc_places(value: float, places: int) -> float:
    """Truncate after `decimalPlaces` digits after the point, or before it if `decimalPlaces` is negative.

    Example: TRUNC(1.239E0, 2) -> 1.23E0
    """
    exact = decimal.Decimal(java_double(value))
    if not exact.is_finite():
        raise ArithmeticError("Infinite or NaN")
    return _real(_scaled(exact, places, decimal.ROUND_DOWN))


@scalar("(val DECIMAL(p,s), decimalPlaces INT) -> DECIMAL(p,s)", name="TRUNC", display_name="trunc", with_types=True)
def trunc_decimal_places(types: CallTypes, value: decimal.Decimal, places: int) -> decimal.Decimal:
    """Truncate after `decimalPlaces` digits after the point and keep the type.

    Example: TRUNC(12.345, 1) -> 12.300
    """
    return _at_scale(_scaled(value, places, decimal.ROUND_DOWN), types.returns)


_COMPARED = ("INT", "BIGINT", "DOUBLE", "STRING", "DATE", "TIME", "TIMESTAMP", "BYTES")
_COMPARABLE = (
    *(f"(val {name}, vals {name}...) -> {name}" for name in _COMPARED),
    "(val DECIMAL(p,s), vals DECIMAL(p,s)...) -> DECIMAL",
)


def _common(arguments: tuple[SqlType | None, ...]) -> SqlType:
    """Return the type of arguments of one type, and of DECIMALs the one that holds all."""
    present = [argument for argument in arguments if argument is not None]
    return _widest(arguments) if isinstance(present[0], Decimal) else present[0]


def _extreme(choose: Callable[..., T | None], values: Sequence[T | None]) -> T | None:
    return choose((value for value in values if value is not None), key=sort_key, default=None)


@scalar(*_COMPARABLE, nulls=Nulls.BODY, returns=_common, display_name="greatest")
def greatest(*values: T | None) -> T | None:
    """Return the largest argument that is not NULL; bytes compare as signed.

    A DECIMAL keeps its own scale, and the type is the DECIMAL that holds all.

    Example: GREATEST(1, NULL, 3) -> 3
    Example: GREATEST(1.5, 0.25) -> 1.5
    Example: FROM_BYTES(GREATEST(TO_BYTES('01', 'hex'), TO_BYTES('80', 'hex')), 'hex') -> '01'
    """
    return _extreme(max, values)


@scalar(*_COMPARABLE, nulls=Nulls.BODY, returns=_common, display_name="least")
def least(*values: T | None) -> T | None:
    """Return the smallest argument that is not NULL; bytes compare as signed.

    A DECIMAL keeps its own scale, and the type is the DECIMAL that holds all.

    Example: LEAST('b', NULL, 'a') -> 'a'
    Example: LEAST(1.5, 12.25) -> 1.5
    Example: FROM_BYTES(LEAST(TO_BYTES('01', 'hex'), TO_BYTES('80', 'hex')), 'hex') -> '80'
    """
    return _extreme(min, values)
