"""Spark expressions and the Python interpreter agree on every expression."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kestrel_sql.errors import EngineError, UnsupportedError
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.declaration import Nulls, Runs, Scalar, python_scalar, scalar
from kestrel_sql.functions.interpreter.evaluate import IMPLEMENTATIONS, Values, evaluate, interpretable
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_expression
from kestrel_sql.spark.compile.python_functions import register
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.sql.parse.parser import parse_expression
from tests.engine.functions.values import plain, same


@python_scalar("(value T) -> T", nulls=Nulls.BODY)
def py(value: Any) -> Any:
    """Return the value, from Python."""
    return value


@python_scalar("(value T) -> T", nulls=Nulls.BODY)
def broken(value: Any) -> Any:
    """Fail."""
    raise ValueError("broken")


@scalar("(value STRING) -> STRING")
def foreign(value: Any) -> Any:
    """Return the value; a native function without a Python implementation."""
    return value


REGISTRY = FUNCTIONS.with_functions(py, broken, foreign)

INTS = ("0", "7", "-7", "2147483647", "CAST(-2147483648 AS INT)", "CAST(NULL AS INT)")
LONGS = ("9223372036854775807", "CAST(3 AS BIGINT)", "CAST(NULL AS BIGINT)")
DOUBLES = (
    "0E0",
    "-0E0",
    "-1.5E0",
    "1E300",
    "(0E0 / 0E0)",
    "(1 / 0E0)",
    "123456789.125E0",
    "1E-5",
    "CAST(NULL AS DOUBLE)",
)
DECIMALS = ("1.25", "-0.5", "0.0", "99.99", "CAST(NULL AS DECIMAL(4, 2))")
TEXTS = (
    "''",
    "' 12 '",
    "'\t1\r\n'",
    "'\x001\x1f'",
    "'\u00a01'",
    "'ab'",
    "'-7'",
    "'1.5'",
    "'3000000000'",
    "'yes'",
    "'a%_\\'",
    "CAST(NULL AS STRING)",
)
TIMES = (
    "'2021-05-18T13:05:01.123'",
    "'2021-02-30'",
    "'2021-05'",
    "'1969-12-31T23:59'",
    "'2020-02-29T00:00:00.000+0130'",
    "'0000-02-29'",
    "'9999-12-31T23:59:59.999Z'",
    "'2021-05-18T24:00'",
    "'2021-05-18T24:00:00.001'",
    "' 2021-05-18T1 '",
    "'2021-05-18T-0800'",
    "'2021-05-18T01:02:03.4+18:00'",
    "'2021-05-18T01+18:01'",
    "'2021-06-31T23:59:59.999-00:30'",
    "'2021-05-32'",
    "'2021-05T01'",
    "'2021\n'",
    "'0000'",
    "'13:05'",
    "'13:05:07.25'",
    "'YWJj'",
)
NUMBERS = (*INTS, *LONGS, *DOUBLES, *DECIMALS)
ARRAYS = ("ARRAY[1, NULL, 3]", "ARRAY[1]", "CAST(NULL AS ARRAY<INT>)")
MAPS = ("MAP('b' := 2, 'a' := 1)", "MAP('a' := 1, 'b' := 2)", "MAP('x' := CAST(NULL AS INT))")
STRUCTS = ("STRUCT(A := 1, B := 'x')", "STRUCT(A := CAST(NULL AS INT), B := 'y')")


def _operators() -> list[str]:
    few = ("7", "-7", "0", "9223372036854775807", "-1.5E0", "0E0", "(0E0 / 0E0)", "1.25", "-0.5", "CAST(NULL AS INT)")
    return [
        *(f"{a} {op} {b}" for a, b in product(few, few) for op in "+-*/%"),
        *(
            f"{a} {op} {b}"
            for a, b in product(("1", "2.5E0", "1.0", "(0E0 / 0E0)", "CAST(NULL AS INT)"), repeat=2)
            for op in ("=", "<", ">=", "<>")
        ),
        *(f"{a} IS DISTINCT FROM {b}" for a, b in product(("1", "2E0", "CAST(NULL AS INT)"), repeat=2)),
        *(f"{a} + {b}" for a, b in product(("'a'", "CAST(NULL AS STRING)"), repeat=2)),
        *(f"{a} {op} {b}" for a, b in product(("'a'", "'b'", "''", "'é'"), repeat=2) for op in ("=", "<")),
        *(f"{a} = {b}" for group in (ARRAYS, MAPS, STRUCTS) for a, b in product(group, repeat=2)),
        *(f"-({a})" for a in NUMBERS),
        *(f"{a} IN (7, NULL, 2147483647)" for a in INTS),
        *(f"{a} BETWEEN -7 AND 8" for a in NUMBERS),
        *(f"{a} IS NULL" for a in (*INTS, *ARRAYS)),
        *(
            f"{a} {op} {b}"
            for a, b in product(("TRUE", "FALSE", "CAST(NULL AS STRING) LIKE 'a'", "7 / 0 = 1"), repeat=2)
            for op in ("AND", "OR")
        ),
        *(f"NOT {a}" for a in ("TRUE", "FALSE", "(CAST(NULL AS STRING) LIKE 'a')")),
    ]


def _casts() -> list[str]:
    integral, real = (
        ("INT", "BIGINT", "DOUBLE", "STRING", "DECIMAL(10, 2)", "DECIMAL(38, 10)"),
        ("BOOLEAN", "TIMESTAMP", "DATE", "TIME", "BYTES"),
    )
    return [
        *(f"CAST({value} AS {target})" for value in NUMBERS for target in integral),
        *(f"CAST({value} AS {target})" for value in (*TEXTS, *TIMES) for target in (*integral, *real)),
        *(
            f"CAST(CAST({value} AS TIMESTAMP) AS {target})"
            for value in TIMES[:5]
            for target in ("STRING", "DATE", "TIME")
        ),
        *(f"CAST(CAST({value} AS DATE) AS {target})" for value in TIMES[:3] for target in ("STRING", "TIMESTAMP")),
        *(f"CAST({value} AS STRING)" for value in (*ARRAYS, *MAPS, *STRUCTS, "TRUE", "ARRAY[1.50]", "ARRAY[1E10]")),
        *(
            f"CAST({value} AS ARRAY<{item}>)"
            for value in (*ARRAYS, "ARRAY['1', 'x']")
            for item in ("STRING", "DOUBLE", "BIGINT")
        ),
        "CAST(MAP('1' := 2) AS MAP<INT, STRING>)",
        "CAST(STRUCT(A := 1, C := 2) AS STRUCT<A STRING, B INT>)",
        "CAST('1e-99999' AS DECIMAL(5, 2))",
        "CAST('1e99999' AS DECIMAL(5, 2))",
    ]


def _others() -> list[str]:
    patterns = ("%", "a%", "%b", "_b", "%a%b%", "a!%b", "", "%%", "(.*)", "a\\%", "a%_\\", "!")
    texts = ("'ab'", "'a%b'", "''", "'xaxbx'", "'a\nb'", "'(.*)'", "'a\\b'", "CAST(NULL AS STRING)")
    return [
        *(f"{text} LIKE '{pattern}'" for text in texts for pattern in patterns),
        *(f"{text} LIKE '{pattern}' ESCAPE '!'" for text in texts for pattern in patterns),
        *(f"{text} LIKE CONCAT('{pattern}')" for text in texts for pattern in patterns),
        "CASE WHEN TRUE THEN 1 WHEN 1 / 0 = 1 THEN 2 END",
        "CASE WHEN FALSE THEN 1 / 0 ELSE 3 END",
        "CASE WHEN FALSE THEN 1 ELSE 1 / 0 END",
        "CASE WHEN FALSE THEN 1 END",
        "CASE WHEN CAST(NULL AS STRING) LIKE 'a' THEN 1 ELSE 2 END",
        *(f"ARRAY['a', 'b'][{at}]" for at in ("1", "-1", "0", "3", "-3", "CAST(NULL AS INT)")),
        *(f"MAP('a' := 1)[{key}]" for key in ("'a'", "'b'", "CAST(NULL AS STRING)")),
        "CAST(NULL AS ARRAY<INT>)[1]",
        "STRUCT(A := 1)->A",
        "CAST(NULL AS STRUCT<A INT>)->A",
        "ARRAY[1 / 0, 2]",
        "MAP('a' := 1 / 0)",
        "STRUCT(A := 1 / 0)",
        "CAST('2021-05-18' AS DATE) = CAST('2021-05-18T00:00' AS TIMESTAMP)",
        "CAST('2021-05-18' AS DATE) = '2021-05-18'",
        "CAST('2021-05-18' AS DATE) = 'never'",
        "TRANSFORM(ARRAY[1, 2], x => x / 0)",
        "TRANSFORM(ARRAY[ARRAY[1], ARRAY[2, 3]], x => TRANSFORM(x, y => y + ARRAY_LENGTH(x)))",
        "FILTER(ARRAY['a', 'b'], x => x LIKE CAST(NULL AS STRING))",
        "FILTER(MAP('a' := 1), (k, v) => v > 0)",
        "REDUCE(ARRAY[1, 2], CAST(NULL AS INT), (a, b) => a + b)",
        "REDUCE(ARRAY['a', 'b'], '', (a, b) => a + b)",
        "REDUCE(MAP('b' := 2, 'a' := 1, 'AaBB' := 3, 'BBAa' := 4), '', (a, k, v) => a + k)",
        "TRANSFORM(MAP('a' := 1), (k, v) => 'x', (k, v) => CAST(NULL AS INT))",
        *(f"ROUND({value})" for value in DOUBLES),
        *(f"FLOOR({value})" for value in (*DOUBLES, *DECIMALS)),
        *(f"CEIL({value})" for value in (*DOUBLES, *DECIMALS)),
        *(f"TRUNC({value})" for value in (*DOUBLES, *DECIMALS)),
        *(f"SIGN({value})" for value in (*INTS, *DOUBLES)),
        *(f"ABS({value})" for value in NUMBERS),
        *(
            f"{name}({value})"
            for name in ("ACOS", "SQRT", "COT", "COSH", "CBRT", "ATAN", "RADIANS")
            for value in DOUBLES
        ),
        *(f"SUBSTRING('stream', {at}, {size})" for at in (-9, -2, 0, 1, 3, 7) for size in (-1, 0, 2, 99)),
        *(f"ARRAY_SORT(ARRAY[3, 1, NULL, 2], {way})" for way in ("'asc'", "'DESC'", "'up'", "CAST(NULL AS STRING)")),
        *(
            f"SLICE(ARRAY[1, 2, 3], {a}, {b})"
            for a in ("0", "1", "3", "4", "CAST(NULL AS INT)")
            for b in ("0", "1", "3", "4", "CAST(NULL AS INT)")
        ),
        *(f"GENERATE_SERIES({a}, {b}, {c})" for a in (1, 5) for b in (1, 5) for c in (-2, 0, 2)),
        "GENERATE_SERIES(1, 2147483647)",
        *(
            f"DATEADD({unit}, {n}, CAST('1969-12-31' AS DATE))"
            for unit in ("DAYS", "HOURS")
            for n in (-25, 23, 2147483647)
        ),
        *(f"LPAD('ab', {size}, 'xyz')" for size in ("-1", "0", "1", "2", "7", "16777217", "CAST(NULL AS INT)")),
        *(f"REPLACE({value}, {old}, 'xy')" for value in ("''", "'abcabc'") for old in ("''", "'b'", "'abc'", "'z'")),
    ]


EXPRESSIONS = tuple(dict.fromkeys([*_operators(), *_casts(), *_others()]))


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


def _in_python(text: str, *, nested: bool) -> Any:
    try:
        bound = interpretable(bind(parse_expression(text), {}, REGISTRY))
    except EngineError as error:
        return error
    try:
        return evaluate(bound, Values({}, nested=nested)), False
    except (ValueError, ArithmeticError):
        return None, True


@pytest.fixture(scope="module")
def native() -> dict[str, Any]:
    return _in_spark(EXPRESSIONS, nested=False)


@pytest.mark.spark
def test_spark_and_python_agree(native):
    differ = []
    for text in EXPRESSIONS:
        ours, theirs = _in_python(text, nested=False), native[text]
        if isinstance(theirs, EngineError) or isinstance(ours, EngineError):
            agree = type(theirs) is type(ours)
        else:
            agree = same(ours[0], theirs[0]) and ours[1] == theirs[1]
        if not agree:
            differ.append(f"{text}: Python {ours}, Spark {theirs}")
    assert len(EXPRESSIONS) > 900
    assert not differ, "\n".join(differ)


def test_every_native_function_has_a_python_implementation():
    declared = [o.function for name in FUNCTIONS for o in FUNCTIONS.get(name)]
    assert {f.body.__name__ for f in declared if isinstance(f, Scalar) and f.runs is Runs.NATIVE} == set(
        IMPLEMENTATIONS
    )


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
