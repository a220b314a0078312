"""Writes numbers as text and reads them back as Java does."""

from __future__ import annotations

import decimal
import math
import re

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

EXACT = decimal.Context(
    prec=400,
    rounding=decimal.ROUND_HALF_UP,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow, decimal.DivisionByZero],
)

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DOUBLE = re.compile(r"([+-]?)(?:(NaN)|(Infinity)|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?)", re.ASCII)
_HEX_DOUBLE = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?", re.ASCII)
_JAVA_BLANKS = "".join(map(chr, range(33)))


def java_double(x: float) -> str:
    """Write a double as `Double.toString` of JDK 19 or later does: `1.0`, `1.0E10`, `1.0E-5`, `NaN`, `-Infinity`."""
    if x != x:
        return "NaN"
    magnitude = abs(x)
    if 1e-3 <= magnitude < 1e7 or magnitude == 0.0:
        return repr(x)
    if magnitude == math.inf:
        return "Infinity" if x > 0 else "-Infinity"
    sign, digits, exponent = decimal.Decimal(repr(x)).as_tuple()
    text = "".join(map(str, digits))
    power = int(exponent) + len(text) - 1
    text = text.rstrip("0")
    if len(text) < 2:
        # Where one digit would do, the JDK picks the closest of the two-digit forms: 4.9E-324, not 5.0E-324.
        mantissa, _, shown = f"{magnitude:.1e}".partition("e")
        text, power = mantissa.replace(".", ""), int(shown)
    return f"{'-' if sign else ''}{text[0]}.{text[1:]}E{power}"


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
    if _INTEGER.fullmatch(text):
        value = int(text)
        if low <= value <= high:
            return value
    raise ValueError(f'For input string: "{text}"')


def parse_double(text: str) -> float:
    """Read a double as `Double.parseDouble` does; it trims blanks and accepts type suffixes and hexadecimal forms.

    Raises:
        ValueError: the text is not a number.
    """
    trimmed = text.strip(_JAVA_BLANKS)
    if match := _DOUBLE.fullmatch(trimmed):
        sign, nan, infinity, digits = match.groups()
        magnitude = math.nan if nan else math.inf if infinity else float(digits)
        return -magnitude if sign == "-" else magnitude
    if match := _HEX_DOUBLE.fullmatch(trimmed):
        return float.fromhex(match.group(1))
    raise ValueError(f'For input string: "{text}"' if trimmed else "empty String")


def parse_decimal(text: str) -> decimal.Decimal:
    """Read a decimal as `new BigDecimal(text)` does.

    Raises:
        ValueError: the text is not a number, or its exponent is out of Java's range.
    """
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"Not a decimal number: {text!r}")
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"Not a decimal number: {text!r}") from None


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
        return value.quantize(decimal.Decimal((0, (1,), -scale)), context=EXACT)
    except decimal.DecimalException:
        raise ValueError(f"Cannot fit decimal '{value}' into DECIMAL({precision}, {scale}) without rounding.") from None


def wrap_integer(value: int, bits: int) -> int:
    """Return the low `bits` bits of `value` as two's complement, as Java's narrowing conversion does."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def truncate_decimal(value: decimal.Decimal, bits: int) -> int:
    """Drop the fraction and return the low `bits` bits, as `BigDecimal.intValue` and `longValue` do."""
    if value.adjusted() > bits + 400:
        return 0
    return wrap_integer(int(value), bits)
