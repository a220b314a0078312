"""Lambdas may call Python functions, and every native function has an implementation for the evaluator."""

from __future__ import annotations

from typing import Any

import pytest
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_expression
from kestrel_sql.spark.compile.python_functions import register

from kestrel_sql.errors import EngineError, UnsupportedError
from kestrel_sql.expressions.compiler import NATIVE
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.declaration import Nulls, Runs, Scalar, Tabular, scalar
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.sql.parse.parser import parse_expression
from tests.engine.functions.values import plain


@scalar("(value T) -> T", nulls=Nulls.BODY)
def py(value: Any) -> Any:
    """Return the value, from Python."""
    return value


@scalar("(value T) -> T", nulls=Nulls.BODY)
def broken(value: Any) -> Any:
    """Fail."""
    raise ValueError("broken")


@scalar("(value STRING) -> STRING")
def foreign(value: Any) -> Any:
    """Return the value; a native function without a Python implementation."""
    return value


REGISTRY = FUNCTIONS.with_functions(py, broken, foreign)


def _in_spark(texts: tuple[str, ...], *, nested: bool) -> dict[str, Any]:
    """Return (value, failed) of each expression, or its compile error, from one projection."""
    python = PythonCalls()
    found: dict[str, Any] = {}
    columns: dict[str, str] = {}
    for i, text in enumerate(texts):
        try:
            result = compile_expression(bind(parse_expression(text), {}, REGISTRY), Context({}, python, nested=nested))
        except EngineError as error:
            found[text] = error
            continue
        fails = s.coalesce_false(result.fails) if result.fails is not None else s.FALSE
        columns[text] = f"struct({s.to_text(s.if_(fails, s.NULL, result.value))} AS v, {s.to_text(fails)} AS f) AS c{i}"
    spark = open_test_session()
    register(spark, python)
    values: list[Any] = []
    listed = list(columns.values())
    for start in range(0, len(listed), 250):
        values += spark.sql(f"SELECT {', '.join(listed[start : start + 250])} FROM range(1)").collect()[0]
    return {**found, **{text: (plain(cell.v), cell.f) for text, cell in zip(columns, values, strict=True)}}


def test_every_native_function_has_a_python_implementation():
    declared = [o.function for name in FUNCTIONS for o in FUNCTIONS.get(name)]
    native = {f.body.__name__ for f in declared if isinstance(f, Scalar | Tabular) and f.runs is Runs.NATIVE}
    assert native == set(NATIVE)


def test_native_functions_share_an_implementation_only_on_purpose():
    native = {
        o.function
        for name in FUNCTIONS
        for o in FUNCTIONS.get(name)
        if isinstance(o.function, Scalar) and o.function.runs is Runs.NATIVE
    }
    assert len({f.body.__name__ for f in native}) == len(native)


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


@pytest.mark.spark
def test_lambdas_may_call_python_functions():
    assert {text: value[0] for text, value in _in_spark(tuple(IN_LAMBDAS), nested=True).items()} == IN_LAMBDAS


@pytest.mark.spark
def test_a_failure_in_a_lambda_fails_the_call():
    texts = (
        "TRANSFORM(ARRAY[1, 2], x => BROKEN(x))",
        "REDUCE(ARRAY[1], 0, (s, x) => BROKEN(s))",
        "TRANSFORM(ARRAY[PY(1)], x => x / 0)",
    )
    assert set(_in_spark(texts, nested=False).values()) == {(None, True)}


def test_a_lambda_cannot_mix_python_and_user_defined_native_functions():
    bound = bind(parse_expression("TRANSFORM(ARRAY['a'], x => FOREIGN(INITCAP(x)))"), {}, REGISTRY)
    with pytest.raises(UnsupportedError, match="FOREIGN runs as a Spark expression"):
        compile_expression(bound, Context({}, PythonCalls(), nested=True))
