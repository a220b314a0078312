"""Expressions over columns: values, failures of rows, and what inner error scopes report."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kestrel_sql.expressions.columns import Columns, Failures
from kestrel_sql.expressions.compiler import Options, compile_expression
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types import sql_types as t

SCOPE = {"A": t.INTEGER, "B": t.INTEGER, "S": t.STRING, "L": t.Array(t.INTEGER)}
ROWS: list[dict[str, Any]] = [
    {"A": 1, "B": 2, "S": "7", "L": [1, 2]},
    {"A": None, "B": 0, "S": "x", "L": None},
    {"A": 3, "B": 0, "S": None, "L": []},
]
FAILS = "fails"


def over_rows(text: str, *, nested: bool = False) -> tuple[list[Any], list[tuple[int, str]]]:
    """The value or failure of each row, and the reports of inner scopes."""
    reports: list[tuple[int, str]] = []
    columns = Columns(
        {name: [row[name] for row in ROWS] for name in SCOPE},
        len(ROWS),
        lambda at, message, error: reports.append((at, message)),
    )
    failures: Failures = {}
    evaluate = compile_expression(bind(parse_expression(text), SCOPE), Options(nested=nested))
    found = evaluate(columns, failures)
    return [FAILS if at in failures else value for at, value in enumerate(found)], reports


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A + B", [3, FAILS, 3]),
        ("A / B", [0, FAILS, FAILS]),
        ("A = 1 OR A / B = 0", [True, FAILS, FAILS]),
        ("A = 3 OR B = 2", [True, False, True]),
        ("A IS NULL OR A / B > 0", [False, True, FAILS]),
        ("A > 0 AND S = '7'", [True, False, False]),
        ("B <> 0 AND A / B = 0", [True, False, False]),
        ("A BETWEEN 1 AND 2", [True, False, False]),
        ("CASE WHEN B = 0 THEN -1 ELSE A / B END", [0, -1, -1]),
        ("CASE WHEN B <> 0 THEN 1 END", [1, None, None]),
        ("CAST(S AS INTEGER)", [7, FAILS, None]),
        ("L[1]", [1, None, None]),
        ("TRANSFORM(L, X => X + A)", [[2, 3], None, []]),
        ("COALESCE(A, B)", [1, 0, 3]),
        ("S LIKE '7%'", [True, False, FAILS]),
        ("NOT (A = 1)", [False, True, True]),
        ("-A", [-1, FAILS, -3]),
    ],
)
def test_a_row_fails_where_java_throws(text: str, expected: list[Any]) -> None:
    assert over_rows(text)[0] == expected


def test_an_inner_scope_gives_null_and_reports_in_select() -> None:
    values, reports = over_rows("COALESCE(ABS(A / B), 9)", nested=True)
    assert values == [0, 9, 9]
    assert reports == [(1, "Error processing ABS((A / B))"), (2, "Error processing ABS((A / B))")]


def test_without_nested_scopes_the_whole_expression_fails() -> None:
    assert over_rows("COALESCE(ABS(A / B), 9)") == ([0, FAILS, FAILS], [])


def test_scopes_of_a_branch_that_is_not_taken_report_nothing() -> None:
    values, reports = over_rows("CASE WHEN B = 0 THEN 0 ELSE ABS(A / B) END", nested=True)
    assert (values, reports) == ([0, 0, 0], [])


def test_a_scope_inside_a_branch_names_the_row_of_the_whole_batch() -> None:
    values, reports = over_rows("CASE WHEN A = 3 THEN COALESCE(ABS(A / B), 5) ELSE 0 END", nested=True)
    assert (values, reports) == ([0, 0, 5], [(2, "Error processing ABS((A / B))")])


def test_scopes_in_a_lambda_report_nothing() -> None:
    values, reports = over_rows("TRANSFORM(L, X => COALESCE(ABS(X / B), 0))", nested=True)
    assert (values, reports) == ([[0, 1], None, []], [])


LAMBDA_ROWS: dict[str, list[Any]] = {
    "A": [10, 0, None, 5],
    "L": [[5, 2, 1], [4, 0], [1], None],
    "M": [{"a": 2, "b": 0}, {"c": 1}, {}, None],
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRANSFORM(L, X => A / X)", [[2, 5, 10], FAILS, FAILS, None]),
        ("FILTER(L, X => X > A / 5)", [[5], [4], FAILS, None]),
        ("FILTER(L, X => CASE WHEN X > 1 THEN TRUE END)", [FAILS, FAILS, FAILS, None]),
        ("TRANSFORM(L, X => FILTER(L, Y => Y > X + A))", [[[], [], []], [[], [4]], FAILS, None]),
        ("TRANSFORM(M, (K, V) => K, (K, V) => 4 / V)", [FAILS, {"c": 4}, {}, None]),
        ("FILTER(M, (K, V) => V > 0)", [{"a": 2}, {"c": 1}, {}, None]),
        ("FILTER(TRANSFORM(L, X => X + 1), X => X > 2)", [[6, 3], [5], [], None]),
    ],
)
def test_lambdas_of_several_rows_are_evaluated_at_once(text: str, expected: list[Any]) -> None:
    scope = {"A": t.INTEGER, "L": t.Array(t.INTEGER), "M": t.Map(t.STRING, t.INTEGER)}
    failures: Failures = {}
    evaluate = compile_expression(bind(parse_expression(text), scope), Options())
    found = evaluate(Columns(LAMBDA_ROWS, 4), failures)
    assert [FAILS if at in failures else value for at, value in enumerate(found)] == expected


def test_a_lambda_costs_little_for_many_items() -> None:
    size = 20_000
    evaluate = compile_expression(bind(parse_expression("TRANSFORM(L, X => X + A)"), SCOPE), Options())
    columns = Columns({"A": [1] * size, "L": [[1, 2, 3, 4]] * size}, size)
    evaluate(columns, {})
    started = time.process_time()
    evaluate(columns, {})
    # A call of the body for each item takes more than 4 µs.
    assert (time.process_time() - started) / size < 16e-6
