"""Tests deep expressions: long chains of AND and OR are flat, and an expression that is too deep is refused."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_closed
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types.sql_types import BOOLEAN, INTEGER

TYPES = {"X": INTEGER, "B": BOOLEAN}


def written(text: str) -> str:
    context = Context({name: s.column(name) for name in TYPES}, PythonCalls(), nested=False)
    return s.to_text(compile_closed(bind(parse_expression(text), TYPES), context, ""))


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_a_chain_has_one_pair_of_brackets(word: str) -> None:
    parts = f" {word} ".join(f"COALESCE((`X` = {number}), FALSE)" for number in (1, 2, 3))
    assert written(f"X = 1 {word} X = 2 {word} X = 3") == f"({parts})"


def test_another_operator_in_a_chain_keeps_its_parentheses() -> None:
    chain = "COALESCE((`X` = 1), FALSE) OR COALESCE((`X` = 2), FALSE)"
    assert written("(X = 1 OR X = 2) AND X = 3") == f"(({chain}) AND COALESCE((`X` = 3), FALSE))"


def test_null_counts_as_false_inside_a_chain() -> None:
    assert written("B AND NOT B").endswith("(COALESCE(`B`, FALSE) AND COALESCE((NOT (`B`)), FALSE)))")


def test_as_many_alternatives_as_a_statement_may_have_are_written() -> None:
    assert written(" OR ".join(f"X = {number}" for number in range(190))).count(" OR ") == 189


def test_an_expression_that_is_too_deep_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="nested too deeply") as caught:
        written("X" + " + X" * 190)
    assert caught.value.hint is not None
