"""The work for nested expressions grows linearly: no part is evaluated twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kestrel_sql.expressions.columns import Column, Columns
from kestrel_sql.expressions.compiler import compile_expression
from kestrel_sql.functions.bind.bind import bind
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


ROWS: dict[str, list[object]] = {
    "ID": [1, 2, 3, None],
    "N": [9, 8, 0, 7],
    "NAME": ["a", None, "c", ""],
    "HOT": [True, False, None, True],
}


class Counting(Columns):
    """Columns that count how often one is read."""

    reads = 0

    def column(self, name: str) -> Column:
        Counting.reads += 1
        return super().column(name)

    def select(self, rows: Sequence[int]) -> Columns:
        return Counting(super().select(rows)._columns, len(rows))


def reads(nest: str, depth: int) -> int:
    """How often an expression reads a column."""
    text = "N / (ID - 3)"
    for i in range(depth):
        text = nest.format(e=text, i=i)
    Counting.reads = 0
    compile_expression(bind(parse_expression(text), COLUMNS))(Counting(ROWS, 4), {})
    return Counting.reads


@pytest.mark.parametrize("nest", NESTS)
def test_twice_the_levels_are_a_few_times_the_work(nest: str) -> None:
    assert 0 < reads(NESTS[nest], 14) < 5 * reads(NESTS[nest], 7)
