"""The largest expressions that a statement may have are evaluated, also in another process."""

from __future__ import annotations

import pickle

import pytest

from kestrel_sql.expressions.columns import Columns
from kestrel_sql.expressions.compiler import Options
from kestrel_sql.expressions.sendable import Compiled
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.sql.parse.nesting import MAX_DEPTH, MAX_TERMS
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types.sql_types import INTEGER

TERMS = "X" + " + X" * (MAX_TERMS - 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" OR ".join(f"X = {number}" for number in range(2, MAX_TERMS + 2)), False),
        (" AND ".join(f"X <> {number}" for number in range(2, MAX_TERMS + 2)), True),
        (TERMS, MAX_TERMS),
        ("ABS(" * (MAX_DEPTH - 2) + TERMS + ")" * (MAX_DEPTH - 2), MAX_TERMS),
    ],
    ids=["OR", "AND", "terms", "terms in calls"],
)
def test_the_largest_expressions_have_values(text: str, value: object) -> None:
    compiled = Compiled(bind(parse_expression(text), {"X": INTEGER}), Options(nested=True))
    for each in (compiled, pickle.loads(pickle.dumps(compiled))):
        assert each(Columns({"X": [1]}, 1), {}) == [value]
