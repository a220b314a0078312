"""Lambdas may call any function, also a user's."""

from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.functions.table import FUNCTIONS
from tests.engine.functions.values import outcome


@scalar("(value T) -> T", nulls=Nulls.BODY)
def py(value: Any) -> Any:
    """Return the value."""
    return value


@scalar("(value T) -> T", nulls=Nulls.BODY)
def broken(value: Any) -> Any:
    """Fail."""
    raise ValueError("broken")


REGISTRY = FUNCTIONS.with_functions(py, broken)


IN_LAMBDAS = {
    "TRANSFORM(ARRAY['a1', 'b22', NULL], x => REGEXP_REPLACE(x, '[0-9]', '#'))": ["a#", "b##", None],
    "TRANSFORM(PY(ARRAY[1, 2]), x => x + 1)": [2, 3],
    "TRANSFORM(ARRAY[1, 2], x => PY(x) * 2)": [2, 4],
    "REDUCE(ARRAY[1, 2, 3], 2E0, (s, x) => POWER(s, x))": 64.0,
    "REDUCE(ARRAY[1, 2, 3], 2, (s, x) => PY(s) + x)": 8,
    "FILTER(ARRAY['Ab', 'cd'], x => MASK(x) = 'Xx')": ["Ab"],
    "FILTER(MAP('a' := 'x', 'b' := 'y'), (k, v) => INITCAP(v) = 'X')": {"a": "x"},
    "TRANSFORM(MAP('a' := 1), (k, v) => INITCAP(k), (k, v) => PY(v) + 1)": {"A": 2},
    "REDUCE(MAP('b' := 2, 'a' := 1), '', (s, k, v) => INITCAP(s + k))": "Ab",
    (
        "TRANSFORM(ARRAY[ARRAY['a'], ARRAY['b', 'c']], x => TRANSFORM(x, y => CONCAT(INITCAP(y), "
        "CAST(ARRAY_LENGTH(x) AS STRING))))"
    ): [
        ["A1"],
        ["B2", "C2"],
    ],
    "TRANSFORM(TRANSFORM(ARRAY['a'], x => INITCAP(x)), x => LCASE(x))": ["a"],
    "TRANSFORM(TRANSFORM(ARRAY['a'], x => LCASE(x)), x => INITCAP(x))": ["A"],
    "TRANSFORM(ARRAY[1], x => CASE WHEN x = 1 THEN PY(x) ELSE BROKEN(x) END)": [1],
    "TRANSFORM(CAST(NULL AS ARRAY<STRING>), x => INITCAP(x))": None,
    "TRANSFORM(ARRAY[1, 2], x => BROKEN(x))": None,
    "TRANSFORM(ARRAY[1, 2], x => ARRAY[BROKEN(x)])": [[None], [None]],
    "TRANSFORM(ARRAY[1], x => COALESCE(BROKEN(x), 5))": [5],
    "TRANSFORM(ARRAY[1], x => STRUCT(A := PY(x), B := MAP('k' := x)))": [{"A": 1, "B": {"k": 1}}],
    "TRANSFORM(ARRAY[1], x => DATEADD(DAYS, PY(x), FROM_DAYS(1)))": [2],
    "ARRAY_CONTAINS(ARRAY['a', 'b'], PY('b'))": True,
    "ARRAY_REMOVE(ARRAY['a', 'b'], PY('b'))": ["a"],
    "ARRAY_CONTAINS(ARRAY[MAP('a' := 1)], PY(MAP('a' := 1)))": True,
    "TRANSFORM(ARRAY[1], x => NULLIF(x, PY(1)))": [None],
    "TRANSFORM(FILTER(ARRAY[1, 2], x => x > 1), x => PY(x))": [2],
}


@pytest.mark.parametrize("text", IN_LAMBDAS)
def test_lambdas_may_call_any_function(text: str) -> None:
    assert outcome(text, functions=REGISTRY)[0] == IN_LAMBDAS[text]


@pytest.mark.parametrize(
    "text",
    [
        "TRANSFORM(ARRAY[1, 2], x => BROKEN(x))",
        "REDUCE(ARRAY[1], 0, (s, x) => BROKEN(s))",
        "TRANSFORM(ARRAY[PY(1)], x => x / 0)",
    ],
)
def test_a_failure_in_a_lambda_fails_the_call(text: str) -> None:
    assert outcome(text, nested=False, functions=REGISTRY) == (None, True)
