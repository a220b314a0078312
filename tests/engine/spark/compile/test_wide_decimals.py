"""Expressions over DECIMALs of more than 38 digits run in Python, or are refused by name."""

from __future__ import annotations

import pickle
from decimal import Decimal as Number

import pytest

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.interpreter.whole import InterpretedExpression
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.spark.compile.wide_decimals import is_over_wide
from kestrel_sql.spark.types import struct_of
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Decimal

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
    ],
)
def test_expressions_over_wide_decimals_are_exact(text: str, expected: object) -> None:
    bound = bind(parse_expression(text), SCOPE, FUNCTIONS)
    assert is_over_wide(bound)
    body = InterpretedExpression.of(bound, ("A", "B"), nested=True, preserve_nulls=True, settings={})
    shipped = pickle.loads(pickle.dumps(body))
    assert shipped(Number("123456789.0123456789"), Number("2.0000000001")) == expected


def test_a_result_of_too_many_digits_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"\(A \* B\) is a DECIMAL\(77, 20\)"):
        is_over_wide(bind(parse_expression("A * B"), SCOPE, FUNCTIONS))


def test_a_column_of_too_many_digits_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"the column `PRICE`: DECIMAL\(39, 2\) has too many digits"):
        struct_of([Column("PRICE", Decimal(39, 2))])
