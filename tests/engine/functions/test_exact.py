"""The interpreter computes with all digits of a DECIMAL, and with signed zeros, as Java does."""

from __future__ import annotations

import math

import pytest

from kestrel_sql.expressions.compiler import compile_expression
from kestrel_sql.expressions.single_row import value_of
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.sql.parse.parser import parse_expression

WIDE = "12345678901234567890123456789012345678"


def result(expression: str) -> object:
    return value_of(compile_expression(bind(parse_expression(expression), {}, FUNCTIONS)), {})


@pytest.mark.rules("L4.4.7")
@pytest.mark.parametrize(
    ("expression", "digits"),
    [
        (f"-CAST('{WIDE}' AS DECIMAL(38, 0))", f"-{WIDE}"),
        (f"ABS(CAST('-{WIDE}' AS DECIMAL(38, 0)))", WIDE),
        (f"TRUNC(CAST('-0.{WIDE}' AS DECIMAL(38, 38)))", "0"),
        (f"ROUND(CAST('{WIDE}' AS DECIMAL(38, 0)))", WIDE),
    ],
)
def test_decimals_keep_all_digits(expression: str, digits: str) -> None:
    assert format(result(expression), "f") == digits


@pytest.mark.rules("L4.4.7")
@pytest.mark.parametrize(
    ("expression", "quotient"),
    [("1E0 / -0E0", -math.inf), ("-1E0 / -0E0", math.inf), ("1E0 / 0E0", math.inf), ("-1E0 / 0E0", -math.inf)],
)
def test_a_zero_divides_with_its_sign(expression: str, quotient: float) -> None:
    assert result(expression) == quotient


def test_the_distance_to_nowhere_is_nan_and_beyond_a_pole_an_error() -> None:
    assert math.isnan(result("GEO_DISTANCE(0E0 / 0E0, 1E0, 2E0, 3E0)"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="coordinates"):
        result("GEO_DISTANCE(0E0 / 0E0, 1E0, 95E0, 3E0)")
