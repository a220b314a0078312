from __future__ import annotations

import math
from decimal import Decimal

import pytest

from kestrel_sql.java.numbers import (
    fit_decimal,
    java_double,
    parse_decimal,
    parse_double,
    parse_int,
    parse_long,
    truncate_decimal,
    wrap_integer,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (9.9e-4, "9.9E-4"),
        (1e-5, "1.0E-5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1e10, "1.0E10"),
        (-123456789.5, "-1.234567895E8"),
        (1e23, "9.999999999999999E22"),
        (2e-323, "2.0E-323"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2**-1073, "1.0E-323"),
        (2**-1069, "1.58E-322"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (12345678.25, "1.234567825E7"),
        (float(2**53), "9.007199254740992E15"),
        (2.0**62, "4.6116860184273879E18"),
        (2.0**63, "9.223372036854776E18"),
        (9.5e21, "9.500000000000001E21"),
        (2.3851136372966235e25, "2.3851136372966234E25"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text
    assert parse_double(text) == value or math.isnan(value)


@pytest.mark.rules("L4.6.6", "F4.4.4")
def test_digits_of_other_scripts() -> None:
    assert [parse_int(text) for text in ("٣", "+1٣", "-٣４")] == [3, 13, -34]
    assert parse_long("\uff19223372036854775807") == 2**63 - 1
    assert parse_decimal("٣.٤e\u0661") == Decimal(34)
    with pytest.raises(ValueError, match="For input string"):
        parse_double("٣")


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1.0", "2147483648", "x", "+", "\U0001d7cf", "²", "\u22121"])
def test_what_is_no_int(text: str) -> None:
    with pytest.raises(ValueError, match="For input string"):
        parse_int(text)


def test_integers() -> None:
    assert parse_int("+12") == 12
    assert parse_long("-9223372036854775808") == -(2**63)
    assert wrap_integer(2**31, 32) == -(2**31)
    assert truncate_decimal(Decimal("-1.9"), 32) == -1
    assert truncate_decimal(Decimal("1e999999"), 64) == 0


@pytest.mark.parametrize(
    ("text", "value"), [(" 1 ", 1.0), ("1d", 1.0), (".5", 0.5), ("0x1p3", 8.0), ("-Infinity", -math.inf)]
)
def test_doubles_as_java_reads_them(text: str, value: float) -> None:
    assert parse_double(text) == value


def test_decimals_fit_without_rounding() -> None:
    assert str(fit_decimal(Decimal("1.2"), 4, 2)) == "1.20"
    with pytest.raises(ValueError, match="without rounding"):
        fit_decimal(Decimal("1.234"), 4, 2)
    with pytest.raises(ValueError, match="overflow"):
        fit_decimal(Decimal(100), 4, 2)
