"""Expressions over DECIMALs of more than 38 digits are exact."""

from __future__ import annotations

from decimal import Decimal as Number

import pytest

from kestrel_sql.types.sql_types import Decimal
from tests.engine.functions.values import outcomes

SCOPE = {"A": Decimal(38, 10), "B": Decimal(38, 10)}

pytestmark = pytest.mark.rules("L4.4.8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST(A * B AS DECIMAL(38, 20))", Number("246913578.03703703670123456789")),
        ("CAST(A + B AS STRING)", "123456791.0123456790"),
        ("A * B > 246913578.03703703670123456788", True),
        ("A * B IN (1, B * A)", True),
        ("ABS(A * B) = A * B", True),
        ("A * B", Number("246913578.03703703670123456789")),
        ("FILTER(ARRAY[1], x => A * B > x)", [1]),
    ],
)
def test_expressions_over_wide_decimals_are_exact(text: str, expected: object) -> None:
    row = {"A": Number("123456789.0123456789"), "B": Number("2.0000000001")}
    assert outcomes(text, SCOPE, [row]) == [(expected, False)]
