"""Expressions over DECIMALs of more than 38 digits run in Python."""

from __future__ import annotations

import pickle
from decimal import Decimal as Number

import pytest

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.expressions.compiler import Options
from kestrel_sql.expressions.of_row import RowExpression
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.wide_decimals import is_over_wide, over_wide
from kestrel_sql.sql.parse.parser import parse_expression
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
        ("A * B", Number("246913578.03703703670123456789")),
    ],
)
def test_expressions_over_wide_decimals_are_exact(text: str, expected: object) -> None:
    bound = bind(parse_expression(text), SCOPE, FUNCTIONS)
    assert is_over_wide(bound)
    body = RowExpression(bound, ("A", "B"), Options(nested=True))
    shipped = pickle.loads(pickle.dumps(body))
    assert shipped(Number("123456789.0123456789"), Number("2.0000000001")) == expected


def test_a_lambda_computes_with_columns_and_its_own_parameter() -> None:
    assert is_over_wide(bind(parse_expression("FILTER(ARRAY[1], x => A * B > x)"), SCOPE, FUNCTIONS))
    assert not is_over_wide(bind(parse_expression("FILTER(ARRAY[1], x => A > x)"), SCOPE, FUNCTIONS))


def test_a_parameter_of_a_lambda_around_it_is_refused() -> None:
    call = bind(parse_expression("FILTER(ARRAY[1], x => A * B > x)"), SCOPE, FUNCTIONS)
    with pytest.raises(UnsupportedError, match=r"\(\(A \* B\) > X\) computes with DECIMALs of more than 38 digits"):
        over_wide(call.children[1].children[0], Context({}, PythonCalls(), nested=True))
