"""Functions that round numbers and pick the smallest or largest."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from kestrel_sql.functions.declaration import CallTypes, Nulls, python_scalar, scalar
from kestrel_sql.functions.library.spark_sql.expressions import (
    Tree,
    absolute,
    any_of,
    call,
    case,
    cast,
    cast_decimal,
    double,
    if_,
    is_null,
    is_ordered_otherwise,
    java_order,
    let,
    null,
    number,
    op,
    text,
)
from kestrel_sql.java.numbers import ROUNDING, java_double
from kestrel_sql.types.conversion import decimal_of, wider_decimal
from kestrel_sql.types.sql_types import Decimal, SqlType

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


def _is_whole(x: Tree) -> Tree:
    # In Spark, NaN and the infinities compare as greater than all numbers.
    return any_of(op(exp.EQ, x, number(0)), op(exp.GTE, call("abs", x), double(_NO_FRACTION)))


_WHOLE = ("(value INT) -> INT", "(value BIGINT) -> BIGINT")


@scalar(
    *_WHOLE, "(value DOUBLE) -> DOUBLE", "(value DECIMAL(p,s)) -> DECIMAL(p,s)", display_name="Abs", with_types=True
)
def abs_(types: CallTypes, value: Tree) -> Tree:
    """Return the absolute value; the smallest INT and BIGINT stay negative, as in Java.

    Example: ABS(-3) -> 3
    """
    return absolute(value, types.returns)


@scalar("(value INT) -> INT", "(value BIGINT) -> BIGINT", name="CEIL", display_name="Ceil")
def ceil_whole(value: Tree) -> Tree:
    """Return an integer unchanged.

    Example: CEIL(5) -> 5
    """
    return value


@scalar("(value DOUBLE) -> DOUBLE", name="CEIL", display_name="Ceil")
def ceil_double(value: Tree) -> Tree:
    """Round up to an integer; NaN and the infinities stay.

    Example: CEIL(1.2E0) -> 2E0
    """

    def body(x: Tree) -> Tree:
        # Minus the floor of minus x keeps the sign of zero: Math.ceil(-0.5) is -0.0.
        negative = exp.Neg(this=cast(call("floor", exp.Neg(this=exp.Paren(this=x))), "DOUBLE"))
        return case(
            [(_is_whole(x), x), (op(exp.LT, x, number(0)), exp.Paren(this=negative))], cast(call("ceil", x), "DOUBLE")
        )

    return let([value], body)


def _at_own_size(arguments: tuple[SqlType | None, ...]) -> SqlType:
    """Return the type of the argument, which a value that rounding adds a digit to no longer fits."""
    present = arguments[0]
    return replace(present, own_scales=True) if isinstance(present, Decimal) else Decimal(1, 0)


def _at_scale(value: decimal.Decimal, sql_type: SqlType) -> decimal.Decimal:
    rounded = value.quantize(decimal.Decimal(1).scaleb(-decimal_of(sql_type).scale), context=ROUNDING)
    return rounded or rounded.copy_abs()


@python_scalar(
    "(value DECIMAL(p,s)) -> DECIMAL", name="CEIL", display_name="Ceil", returns=_at_own_size, with_types=True
)
def ceil_decimal(types: CallTypes, value: decimal.Decimal) -> decimal.Decimal:
    """Round up to an integer and keep the type, even where the result has a digit more than it.

    Example: CEIL(1.2) -> 2.0
    """
    return _at_scale(_scaled(value, 0, decimal.ROUND_CEILING), types.returns)


@scalar("(value INT) -> INT", "(value BIGINT) -> BIGINT", name="FLOOR", display_name="Floor")
def floor_whole(value: Tree) -> Tree:
    """Return an integer unchanged.

    Example: FLOOR(5) -> 5
    """
    return value


@scalar("(value DOUBLE) -> DOUBLE", name="FLOOR", display_name="Floor")
def floor_double(value: Tree) -> Tree:
    """Round down to an integer; NaN and the infinities stay.

    Example: FLOOR(-1.2E0) -> -2E0
    """
    return let([value], lambda x: if_(_is_whole(x), x, cast(call("floor", x), "DOUBLE")))


@python_scalar(
    "(value DECIMAL(p,s)) -> DECIMAL", name="FLOOR", display_name="Floor", returns=_at_own_size, with_types=True
)
def floor_decimal(types: CallTypes, value: decimal.Decimal) -> decimal.Decimal:
    """Round down to an integer and keep the type, even where the result has a digit more than it.

    Example: FLOOR(1.2) -> 1.0
    """
    return _at_scale(_scaled(value, 0, decimal.ROUND_FLOOR), types.returns)


@scalar("(value INT) -> INT", "(value BIGINT) -> INT", "(value DOUBLE) -> INT", display_name="sign")
def sign(value: Tree) -> Tree:
    """Return the sign of a number: -1, 0 or 1; 0 for NaN.

    Example: SIGN(-7) -> -1
    """
    return cast(call("signum", value), "INT")


@scalar("(value INT NOT NULL) -> BIGINT", "(value BIGINT NOT NULL) -> BIGINT", name="ROUND", display_name="Round")
def round_whole(value: Tree) -> Tree:
    """Return an integer as a BIGINT; a NULL is an error.

    Example: ROUND(5) -> 5
    """
    return cast(value, "BIGINT")


@scalar("(value DOUBLE) -> BIGINT", name="ROUND", display_name="Round")
def round_double(value: Tree) -> Tree:
    """Round to the nearest BIGINT, ties up; values out of range become the nearest BIGINT, NaN becomes 0.

    Example: ROUND(-2.5E0) -> -2
    """

    def body(x: Tree) -> Tree:
        # `rint` is exact where adding 0.5 would round (Math.round(0.49999999999999994) is 0), but rounds ties to even.
        near = call("rint", x)
        tie_down = op(exp.EQ, op(exp.Sub, x, near), double(0.5))
        return cast(if_(tie_down, op(exp.Add, near, double(1.0)), near), "BIGINT")

    return let([value], body)


@python_scalar("(value DECIMAL(p,s)) -> DECIMAL", name="ROUND", display_name="Round", returns=_whole)
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


@python_scalar("(value DOUBLE, places INT) -> DOUBLE", name="ROUND", display_name="Round")
def round_places(value: float, places: int) -> float:
    """Round to `places` digits after the point, or before it if `places` is negative; ties of negative values go up.

    Example: ROUND(1.2345E0, 2) -> 1.23E0
    """
    exact = decimal.Decimal(java_double(value))
    if not exact.is_finite():
        raise ArithmeticError("Infinite or NaN")
    return float(_scaled(exact, places, _half(exact)))


@python_scalar(
    "(value DECIMAL(p,s), places INT) -> DECIMAL",
    name="ROUND",
    display_name="Round",
    returns=_at_own_size,
    with_types=True,
)
def round_decimal_places(types: CallTypes, value: decimal.Decimal, places: int) -> decimal.Decimal:
    """Round to `places` digits after the point and keep the type, even where the result has a digit more than it.

    Ties of negative values go up.

    Example: ROUND(12.345, 1) -> 12.300
    """
    return _at_scale(_scaled(value, places, _half(value)), types.returns)


@scalar(
    "(value INT) -> BIGINT", "(value BIGINT) -> BIGINT", "(value DOUBLE) -> BIGINT", name="TRUNC", display_name="trunc"
)
def trunc_whole(value: Tree) -> Tree:
    """Drop the fraction; values out of range become the nearest BIGINT, NaN becomes 0.

    Example: TRUNC(-2.7E0) -> -2
    """
    return cast(value, "BIGINT")


@scalar("(value DECIMAL(p,s)) -> DECIMAL", name="TRUNC", display_name="trunc", returns=_truncated, with_types=True)
def trunc_decimal(types: CallTypes, value: Tree) -> Tree:
    """Drop the fraction.

    Example: TRUNC(-2.7) -> CAST(-2 AS DECIMAL(1, 0))
    """
    # Spark compares a DECIMAL with 0 in a type that may lack the digits of a small one; its sign is exact.
    whole = if_(op(exp.LT, call("signum", value), number(0)), call("ceil", value), call("floor", value))
    return cast_decimal(whole, decimal_of(types.returns))


@python_scalar("(value DOUBLE, places INT) -> DOUBLE", name="TRUNC", display_name="trunc")
def trunc_places(value: float, places: int) -> float:
    """Truncate after `places` digits after the point, or before it if `places` is negative.

    Example: TRUNC(1.239E0, 2) -> 1.23E0
    """
    exact = decimal.Decimal(java_double(value))
    if not exact.is_finite():
        raise ArithmeticError("Infinite or NaN")
    return float(_scaled(exact, places, decimal.ROUND_DOWN))


@python_scalar("(value DECIMAL(p,s), places INT) -> DECIMAL(p,s)", name="TRUNC", display_name="trunc", with_types=True)
def trunc_decimal_places(types: CallTypes, value: decimal.Decimal, places: int) -> decimal.Decimal:
    """Truncate after `places` digits after the point and keep the type.

    Example: TRUNC(12.345, 1) -> 12.300
    """
    return _at_scale(_scaled(value, places, decimal.ROUND_DOWN), types.returns)


def _extreme(types: CallTypes, function: str, values: Sequence[Tree]) -> Tree:
    if len(values) == 1:
        return values[0]
    if isinstance(types.returns, Decimal):
        return call(function, *(cast_decimal(value, decimal_of(types.returns)) for value in values))
    if is_ordered_otherwise(types.returns):
        keyed = [
            if_(is_null(v), null(), call("named_struct", text("k"), java_order(v, types.returns), text("v"), v))
            for v in values
        ]
        return exp.Dot(this=call(function, *keyed), expression=exp.to_identifier("v"))
    return call(function, *values)


def _signed_bytes(value: bytes) -> bytes:
    return bytes(byte ^ 0x80 for byte in value)


def _extreme_bytes(choose: Callable[..., bytes], values: Sequence[bytes | None]) -> bytes | None:
    present = [value for value in values if value is not None]
    return choose(present, key=_signed_bytes) if present else None


_COMPARED = ("INT", "BIGINT", "DOUBLE", "STRING", "DATE", "TIME", "TIMESTAMP")
_COMPARABLE = tuple(f"(first {name}, other {name}...) -> {name}" for name in _COMPARED)
_DECIMALS = "(first DECIMAL(p,s), other DECIMAL(p,s)...) -> DECIMAL"


@scalar(*_COMPARABLE, nulls=Nulls.BODY, with_types=True, display_name="greatest")
def greatest(types: CallTypes, *values: Tree) -> Tree:
    """Return the largest argument that is not NULL.

    Example: GREATEST(1, NULL, 3) -> 3
    """
    return _extreme(types, "greatest", values)


@scalar(_DECIMALS, name="GREATEST", nulls=Nulls.BODY, with_types=True, returns=_widest, display_name="greatest")
def greatest_decimal(types: CallTypes, *values: Tree) -> Tree:
    """Return the largest argument that is not NULL, with its own scale; the type is the DECIMAL that holds all.

    Example: GREATEST(1.5, 0.25) -> 1.5
    """
    return _extreme(types, "greatest", values)


@python_scalar("(first BYTES, other BYTES...) -> BYTES", name="GREATEST", nulls=Nulls.BODY, display_name="greatest")
def greatest_bytes(*values: bytes | None) -> bytes | None:
    """Return the largest argument that is not NULL; bytes compare as signed.

    Example: FROM_BYTES(GREATEST(TO_BYTES('01', 'hex'), TO_BYTES('80', 'hex')), 'hex') -> '01'
    """
    return _extreme_bytes(max, values)


@scalar(*_COMPARABLE, nulls=Nulls.BODY, with_types=True, display_name="least")
def least(types: CallTypes, *values: Tree) -> Tree:
    """Return the smallest argument that is not NULL.

    Example: LEAST('b', NULL, 'a') -> 'a'
    """
    return _extreme(types, "least", values)


@scalar(_DECIMALS, name="LEAST", nulls=Nulls.BODY, with_types=True, returns=_widest, display_name="least")
def least_decimal(types: CallTypes, *values: Tree) -> Tree:
    """Return the smallest argument that is not NULL, with its own scale; the type is the DECIMAL that holds all.

    Example: LEAST(1.5, 12.25) -> 1.5
    """
    return _extreme(types, "least", values)


@python_scalar("(first BYTES, other BYTES...) -> BYTES", name="LEAST", nulls=Nulls.BODY, display_name="least")
def least_bytes(*values: bytes | None) -> bytes | None:
    """Return the smallest argument that is not NULL; bytes compare as signed.

    Example: FROM_BYTES(LEAST(TO_BYTES('01', 'hex'), TO_BYTES('80', 'hex')), 'hex') -> '80'
    """
    return _extreme_bytes(min, values)
