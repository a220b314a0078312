"""Tests deep expressions: long chains of AND and OR are not deep, and an expression that is too deep is refused."""

from __future__ import annotations

import pytest

from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_closed
from kestrel_sql.sql.parse.nesting import MAX_DEPTH, MAX_TERMS
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types.sql_types import BOOLEAN, INTEGER

TYPES = {"X": INTEGER, "B": BOOLEAN}


def written(text: str) -> str:
    context = Context({name: s.column(name) for name in TYPES}, PythonCalls(), nested=False)
    return s.to_text(compile_closed(bind(parse_expression(text), TYPES), context, ""))


def equals(number: int) -> str:
    return f"`coalesce`(`=`(`X`, {number}), FALSE)"


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_a_chain_is_a_balanced_tree_of_calls(word: str) -> None:
    call = f"`{word.lower()}`"
    parts = [equals(number) for number in range(1, 6)]
    assert written(f" {word} ".join(f"X = {number}" for number in range(1, 6))) == (
        f"{call}({call}({call}({parts[0]}, {parts[1]}), {call}({parts[2]}, {parts[3]})), {parts[4]})"
    )


def test_another_operator_in_a_chain_is_an_operand() -> None:
    assert written("(X = 1 OR X = 2) AND X = 3") == f"`and`(`or`({equals(1)}, {equals(2)}), {equals(3)})"


def test_null_counts_as_false_inside_a_chain() -> None:
    assert written("B AND NOT B").endswith("`and`(`coalesce`(`B`, FALSE), `coalesce`(`not`(`B`), FALSE)))")


def test_as_many_alternatives_as_a_statement_may_have_are_written() -> None:
    assert written(" OR ".join(f"X = {number}" for number in range(190))).count("`or`(") == 189


@pytest.mark.parametrize(
    "text",
    ["X" + " + X" * (MAX_TERMS - 1), "ABS(" * (MAX_DEPTH - 2) + "X" + " + X" * (MAX_TERMS - 1) + ")" * (MAX_DEPTH - 2)],
)
def test_the_largest_expressions_are_written(text: str) -> None:
    assert written(text).count("`X`") >= MAX_TERMS
