"""Writes numbers as text and reads them back as Java does."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable

from kestrel_sql.types.conversion import decimal_of
from kestrel_sql.types.sql_types import SqlType

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_MOST_DIGITS = 4_300
"""Python reads no whole number of more digits, but looks through all of them first."""

EXACT = decimal.Context(
    prec=400,
    rounding=decimal.ROUND_HALF_UP,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow, decimal.DivisionByZero],
)

ROUNDING = decimal.Context(prec=1000, rounding=decimal.ROUND_HALF_UP)
"""Computes with all digits of a DECIMAL; Python's default context keeps 28."""

_DIGIT = r"(?![\U00010000-\U0010ffff])\d"
"""A digit of any script that Java writes as one unit of UTF-16, as `Character.digit` takes it."""
_INTEGER = re.compile(rf"[+-]?(?:{_DIGIT})+")
_DECIMAL = re.compile(rf"[+-]?((?:{_DIGIT})+\.?(?:{_DIGIT})*|\.(?:{_DIGIT})+)([eE][+-]?(?:{_DIGIT})+)?")
_ASCII_DECIMAL = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?", re.ASCII)
_DOUBLE = re.compile(r"([+-]?)(?:(NaN)|(Infinity)|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?)", re.ASCII)
_HEX_DOUBLE = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?", re.ASCII)
JAVA_BLANKS = "".join(map(chr, range(33)))
"""The characters that Java's `String.trim` removes."""


def java_double(x: float) -> str:
    """Write a double as `Double.toString` of Java 17 does: `1.0`, `1.0E10`, `1.0E-5`, `4.9E-324`, `NaN`, `-Infinity`.

    JDKs before 19 write some doubles with more digits than they need, such as 4.6116860184273879E18 (docs/adr/0026).
    """
    if x != x:
        return "NaN"
    magnitude = abs(x)
    if 1e-3 <= magnitude < 1e7 or magnitude == 0.0:
        return repr(x)
    sign = "-" if x < 0 else ""
    if magnitude == math.inf:
        return f"{sign}Infinity"
    digits, power = double_digits(magnitude)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def double_digits(magnitude: float) -> tuple[str, int]:
    """Return the digits of a positive, finite double as in Java 17, without trailing zeros, and its exponent."""
    if magnitude < 2.0**63 and magnitude.is_integer():
        return _whole_digits(int(magnitude))
    if 1.0 <= magnitude < 2.0**53:
        # A number halfway between two such doubles has at least 18 digits, so all algorithms find the same digits.
        whole, _, fraction = repr(magnitude).partition(".")
        return whole + fraction, len(whole) - 1
    return _shortest_digits(magnitude)


def _whole_digits(value: int) -> tuple[str, int]:
    """Return the digits and the exponent of an integer below 2^63, without digits that no double tells apart."""
    dropped = len(str(1 << max(value.bit_length() - 55, 0))) - 1
    half = 10**dropped // 2
    digits = str((value + half) // 10**dropped if dropped else value)
    return digits.rstrip("0"), len(digits) + dropped - 1


def _shortest_digits(magnitude: float) -> tuple[str, int]:
    """Return the digits and the exponent as JDKs before 19 compute them: digit by digit, until no other double is near.

    The number is `b / s * 10^power`, and `m / s * 10^power` is half the distance to the next double. For small terms
    Java computes with integers of `bits` bits, whose overflow shows in the last digit.
    """
    power, b, s, m, bits = _scaled(magnitude)
    digits, is_low, is_high = "", False, False
    while not (is_low or is_high):
        digit, b = divmod(b, s)
        b, m = b * 10, m * 10
        if bits:
            m = wrap_integer(m, bits)
            is_low, is_high = m <= 0 or b < m, m <= 0 or wrap_integer(b + m, bits) > s * 10
        else:
            is_low, is_high = b < m, b + m >= s * 10
        if not digits:
            is_low = is_high = False  # The text has a digit after the point, too.
        digits += str(digit)
    number, rest = int(digits), 2 * b - s * 10
    number += is_high and (not is_low or rest > 0 or (rest == 0 and number % 2 == 1))
    text = str(number)
    return text.rstrip("0"), power - len(digits) + len(text)


def _scaled(magnitude: float) -> tuple[int, int, int, int, int]:
    """Return the power of ten, the terms `b`, `s` and `m` of `_shortest_digits`, and the bits of Java's integers.

    The bits are 32, 64, or 0 for integers of any size.
    """
    fraction, exponent = math.frexp(magnitude)
    exponent -= 1
    numerator, denominator = magnitude.as_integer_ratio()
    behind_point = denominator.bit_length() - 1
    odd = numerator // (numerator & -numerator)
    width = odd.bit_length()
    power = math.floor((fraction * 2 - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
    b5, s5 = max(0, -power), max(0, power)
    b2, s2 = b5 + behind_point + exponent - width + 1, s5 + behind_point
    # The double below a power of two is nearer than the one above; Java uses that distance for both.
    m2 = b5 + behind_point + exponent - min(53, exponent + 1075) - (width == 1)
    common = min(b2, s2, m2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common
    most = max(width + b2 + _bits_of_five(b5), s2 + 1 + _bits_of_five(s5 + 1))
    return power, odd * 5**b5 << b2, 5**s5 << s2, 5**b5 << m2, 32 if most < 32 else 64 if most < 64 else 0


def _bits_of_five(power: int) -> int:
    """Return the number of bits that Java assumes for a power of five."""
    return (5**power).bit_length() if 0 < power < 27 else power * 3


def parse_int(text: str) -> int:
    """Read a 32-bit integer as `Integer.parseInt` does.

    Raises:
        ValueError: the text is not an optional sign with digits, or the number is out of range.
    """
    return _parse_integer(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int:
    """Read a 64-bit integer as `Long.parseLong` does.

    Raises:
        ValueError: the text is not an optional sign with digits, or the number is out of range.
    """
    return _parse_integer(text, LONG_MIN, LONG_MAX)


def _parse_integer(text: str, low: int, high: int) -> int:
    if len(text) <= _MOST_DIGITS and _INTEGER.fullmatch(text):
        value = int(text)
        if low <= value <= high:
            return value
    raise ValueError(f'For input string: "{text}"')


def parse_double(text: str) -> float:
    """Read a double as `Double.parseDouble` does; it trims blanks and accepts type suffixes and hexadecimal forms.

    Raises:
        ValueError: the text is not a number.
    """
    trimmed = text.strip(JAVA_BLANKS)
    if match := _DOUBLE.fullmatch(trimmed):
        sign, nan, infinity, digits = match.groups()
        magnitude = math.nan if nan else math.inf if infinity else float(digits)
        return -magnitude if sign == "-" else magnitude
    if match := _HEX_DOUBLE.fullmatch(trimmed):
        return float.fromhex(match.group(1))
    raise ValueError(f'For input string: "{text}"' if trimmed else "empty String")


def to_double(value: float | decimal.Decimal) -> float:
    """Return the DOUBLE of a number that Java reads as a BigDecimal, which has no -0; one too large is infinite."""
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.inf if value > 0 else -math.inf


_LONG_EXPONENT = 9
_MOST_SCALE = 646_456_993
"""BigInteger holds no greater power of ten, by which Java divides to round."""


def parse_decimal(text: str) -> decimal.Decimal:
    """Read a decimal as `new BigDecimal(text)` does.

    Raises:
        ValueError: the text is not a number, or its exponent is out of Java's range.
    """
    if not (_ASCII_DECIMAL if text.isascii() else _DECIMAL).fullmatch(text):
        raise ValueError(f"Not a decimal number: {text!r}")
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"Not a decimal number: {text!r}") from None
    written = text.lower().partition("e")[2]
    if len(written) >= _LONG_EXPONENT and (
        not -(2**31) <= int(written) < 2**31 or value.as_tuple().exponent < -_MOST_SCALE  # type: ignore[operator]
    ):
        raise ValueError(f"Not a decimal number: {text!r}")
    return value


def fit_decimal(value: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal:
    """Return `value` with exactly `scale` digits after the point.

    Raises:
        ValueError: the value has too many digits before or after the point.
    """
    if not value.is_finite():
        raise ValueError(f"Not a decimal number: {value}")
    if value and value.adjusted() >= precision - scale:
        raise ValueError(
            f"Numeric field overflow: A field with precision {precision} and scale {scale} must round to an absolute "
            f"value less than 10^{precision - scale}. Got {value}"
        )
    try:
        fitted = value.quantize(decimal.Decimal((0, (1,), -scale)), context=EXACT)
    except decimal.DecimalException:
        raise ValueError(f"Cannot fit decimal '{value}' into DECIMAL({precision}, {scale}) without rounding.") from None
    # BigDecimal has no minus zero.
    return fitted or fitted.copy_abs()


def round_decimal(value: decimal.Decimal, target: SqlType) -> decimal.Decimal:
    """Round to the scale of a DECIMAL type, half up; INTEGER and BIGINT count as the DECIMAL that holds them.

    Raises:
        ArithmeticError: the number has too many digits, or is not finite.
    """
    return rounder(target)(value)


def rounder(target: SqlType) -> Callable[[decimal.Decimal], decimal.Decimal]:
    """Return what rounds to a type as `round_decimal` does."""
    size = decimal_of(target)
    digits, step = size.precision - size.scale, decimal.Decimal(1).scaleb(-size.scale)

    def rounded(value: decimal.Decimal) -> decimal.Decimal:
        if not value.is_finite() or (value and value.adjusted() > size.precision):
            raise ArithmeticError("Numeric field overflow")
        result = value.quantize(step, context=ROUNDING)
        if result and result.adjusted() >= digits:
            raise ArithmeticError("Numeric field overflow")
        return result or result.copy_abs()

    return rounded


def wrap_integer(value: int, bits: int) -> int:
    """Return the low `bits` bits of `value` as two's complement, as Java's narrowing conversion does."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def truncate_decimal(value: decimal.Decimal, bits: int) -> int:
    """Drop the fraction and return the low `bits` bits, as `BigDecimal.intValue` and `longValue` do."""
    if value.adjusted() > bits + 400:
        return 0
    return wrap_integer(int(value), bits)
