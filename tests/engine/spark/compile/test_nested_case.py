"""Tests that the SQL of nested expressions grows linearly, and that Spark does not search for common subexpressions."""

from __future__ import annotations

import pytest

from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_closed
from kestrel_sql.spark.runtime.session import SETTINGS
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types import sql_types as t

COLUMNS = {"ID": t.INTEGER, "N": t.INTEGER, "NAME": t.STRING, "HOT": t.BOOLEAN}
NESTS = {
    "in THEN": "CASE WHEN N + {i} > 7 THEN {e} + {i} ELSE LEN(NAME) / N END",
    "in ELSE": "CASE WHEN N / ID > 7 THEN LEN(NAME) / N ELSE {e} END",
    "in WHEN": "CASE WHEN {e} > 3 THEN {i} ELSE ID END",
    "in WHEN, failing": "CASE WHEN {e} > 3 THEN N / ID ELSE {i} END",
    "under NULL conditions": "CASE WHEN HOT THEN {e} ELSE N / ID END",
    "without ELSE": "CASE WHEN N > {i} THEN {e} END",
    "in BETWEEN": "CASE WHEN {e} BETWEEN ID AND {i} THEN N ELSE ID END",
    "in IN": "CASE WHEN {e} IN (1, 2, {i}) THEN N ELSE ID END",
    "in a division": "CAST(3E0 / {e} AS INT) % N",
    "in a call": "UNIX_DATE(DATEADD(DAYS, {e}, FROM_DAYS(ID)))",
    "in a date": "UNIX_DATE(CAST(CAST(FROM_DAYS({e}) AS STRING) AS DATE))",
    "in a cast": "CAST(CASE WHEN N > {i} THEN CAST({e} AS STRING) ELSE NAME END AS INT)",
}


def size(nest: str, depth: int) -> int:
    """The length of the Spark SQL of a column and its log entries."""
    text = "N / (ID - 3)"
    for i in range(depth):
        text = nest.format(e=text, i=i)
    context = Context({name: s.column(name) for name in COLUMNS}, PythonCalls(), nested=False)
    tree = compile_closed(bind(parse_expression(text), COLUMNS), context, "")
    return len(s.to_text(tree)) + sum(len(s.to_text(fault.condition)) for fault in context.faults)


@pytest.mark.parametrize("depth", [7, pytest.param(10, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("nest", NESTS)
def test_twice_the_levels_are_no_more_than_a_few_times_as_long(nest, depth):
    assert size(NESTS[nest], 2 * depth) < 5 * size(NESTS[nest], depth)


def test_spark_looks_for_no_equal_parts():
    # It takes time that doubles with each level of "in WHEN"; sixteen of them took a minute.
    assert SETTINGS["spark.sql.subexpressionElimination.enabled"] == "false"
