"""Runs the `Example:` lines of aggregate and table functions.

Their forms are `F(X, Y) over (1, 2), (3, 4) -> 7` and `F(ARRAY[1]) -> 1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.declaration import Aggregate, AggregateCall, Tabular
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types.sql_types import INTEGER, SqlType

MARK = "Example: "


def value(node: e.Expression) -> Any:
    match node:
        case e.NullLiteral():
            return None
        case e.ArrayConstructor(items):
            return [value(item) for item in items]
        case e.MapConstructor(entries):
            return {value(key): value(item) for key, item in entries}
        case e.StructConstructor(fields):
            return {name: value(item) for name, item in fields}
        case e.IntegerLiteral() | e.DecimalLiteral() | e.StringLiteral():
            return float(node.value) if isinstance(node.value, Decimal) else node.value
        case _:
            raise TypeError(f"{node} is no literal")


def items_of(text: str) -> tuple[e.Expression, ...]:
    call = parse_expression(f"F({text})")
    assert isinstance(call, e.FunctionCall)
    return call.arguments


def rows_of(text: str) -> Iterator[tuple[e.Expression, ...]]:
    if text.startswith("("):
        yield from (items_of(row) for row in text[1:-1].split("), ("))
    else:
        yield from ((item,) for item in items_of(text))


def examples(kind: type[Aggregate] | type[Tabular]) -> list[tuple[Any, str]]:
    functions = dict.fromkeys(overload.function for name in FUNCTIONS for overload in FUNCTIONS.get(name))
    lines = [
        (function, line.strip())
        for function in functions
        if isinstance(function, kind)
        for line in function.doc.splitlines()
    ]
    return [(function, line.removeprefix(MARK)) for function, line in lines if line.startswith(MARK)]


AGGREGATES, TABULARS = examples(Aggregate), examples(Tabular)


@pytest.mark.parametrize(("function", "line"), AGGREGATES, ids=[line for _, line in AGGREGATES])
def test_examples_of_aggregates(function: Aggregate, line: str) -> None:
    call, _, rest = line.partition(" over ")
    rows_text, _, result = rest.rpartition(" -> ")
    rows = list(rows_of(rows_text))
    given = parse_expression(call)
    assert isinstance(given, e.FunctionCall)
    scope = {name: column_type(column) for name, column in zip("XY", zip(*rows, strict=True), strict=False)}
    bound = bind(given, scope, FUNCTIONS)
    assert bound.function is function
    assert bound.type is not None
    literals = tuple(value(argument) for argument in given.arguments if not isinstance(argument, e.ColumnRef))
    aggregator = function.factory(AggregateCall(tuple(scope.values()), bound.type, literals, {}))
    state = aggregator.initialize()
    for number, row in enumerate(rows):
        arguments = tuple(map(value, row))
        state = aggregator.aggregate(state, *((number, *arguments) if aggregator.numbered else arguments))
    assert aggregator.result(state) == value(parse_expression(result))


def column_type(column: tuple[e.Expression, ...]) -> SqlType:
    types = (bind(item, {}, FUNCTIONS).type for item in column)
    return next((found for found in types if found is not None), INTEGER)


@pytest.mark.parametrize(("function", "line"), TABULARS, ids=[line for _, line in TABULARS])
def test_examples_of_table_functions(function: Tabular, line: str) -> None:
    call, _, rows = line.rpartition(" -> ")
    given = parse_expression(call)
    assert isinstance(given, e.FunctionCall)
    assert bind(given, {}, FUNCTIONS).function is function
    assert function.body(*map(value, given.arguments)) == list(map(value, items_of(rows)))
