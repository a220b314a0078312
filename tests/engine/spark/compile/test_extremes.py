"""Tests that no value of a column stops a query: an exception in Spark would fail all rows."""

from __future__ import annotations

import pytest

from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_expression
from kestrel_sql.spark.compile.python_functions import register
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.types import to_spark
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types import sql_types as t

COLUMNS = {
    "B": t.BIGINT,
    "M": t.BIGINT,
    "I": t.INTEGER,
    "J": t.INTEGER,
    "D": t.DOUBLE,
    "S": t.STRING,
    "TS": t.TIMESTAMP,
    "DT": t.DATE,
    "TI": t.TIME,
    "X": t.Decimal(38, 10),
    "Y": t.BYTES,
    "A": t.Array(t.INTEGER),
}
_NINES = "9" * 28 + "." + "9" * 10
_INT, _BIG = 2**31, 2**63
ROWS = (
    (_BIG - 1, -_BIG, _INT - 1, -_INT, "NaN", "9999-99-99T99:99:99.999+99:99", -_BIG, -_INT, _INT - 1, _NINES, ""),
    (-_BIG, _BIG - 1, -_INT, _INT - 1, "Infinity", "2020-02-30", _BIG - 1, _INT - 1, -_INT, f"-{_NINES}", "00"),
    (0, -1, 0, -1, "-Infinity", "", -1, -1, 0, "0.0000000001", "80"),
    (
        _BIG - 1,
        _BIG - 1,
        _INT - 1,
        _INT - 1,
        "1.7976931348623157e308",
        "+2000000-01-01",
        0,
        0,
        0,
        "-0.0000000001",
        "ff" * 16,
    ),
    (1, -_BIG, 1, 0, "-0.0", "1999999999999-01-01T00:00", 253_402_300_800_000, 2_932_897, 86_400_000, "0", "80" * 4),
)
TEXTS = (
    *(
        "CAST(TS AS STRING)",
        "CAST(DT AS STRING)",
        "CAST(TI AS STRING)",
        "CAST(TS AS DATE)",
        "CAST(DT AS TIMESTAMP)",
        "CAST(TS AS TIME)",
    ),
    *(
        "DATEADD(DAYS, I, DT)",
        "TIMESTAMPADD(DAYS, I, TS)",
        "TIMEADD(HOURS, I, TI)",
        "TIMESUB(HOURS, J, TI)",
        "DATESUB(MILLISECONDS, I, DT)",
    ),
    *(
        "FROM_DAYS(J)",
        "FROM_UNIXTIME(M)",
        "UNIX_DATE(DT)",
        "CONVERT_TZ(TS, 'UTC', '+05:00')",
        "FORMAT_TIMESTAMP(TS, 'yyyy')",
        "TO_JSON_STRING(TS)",
    ),
    *(
        "FORMAT_DATE(DT, 'yyyy-MM-dd')",
        "TO_JSON_STRING(DT)",
        "TO_JSON_STRING(TI)",
        "TS > S",
        "DT = S",
        "TI < S",
        "TS = DT",
        "DT > TS",
    ),
    *(
        "ABS(I)",
        "ABS(M)",
        "-M",
        "-I",
        "-X",
        "M * B",
        "M / -1",
        "M % -1",
        "J / -1",
        "J % -1",
        "M / I",
        "D / D",
        "D % D",
        "X % X",
        "X % I",
    ),
    *(
        "ROUND(D)",
        "FLOOR(D)",
        "CEIL(D)",
        "TRUNC(D)",
        "ROUND(D, I)",
        "TRUNC(D, J)",
        "SIGN(D)",
        "SQRT(D)",
        "EXP(I)",
        "LOG(I, J)",
        "POWER(D, I)",
    ),
    *(
        "ABS(X)",
        "ROUND(X)",
        "FLOOR(X)",
        "CEIL(X)",
        "TRUNC(X)",
        "ROUND(X, I)",
        "TRUNC(X, J)",
        "GREATEST(X, X)",
        "COT(D)",
        "ACOS(D)",
    ),
    *(
        "CAST(D AS INT)",
        "CAST(D AS BIGINT)",
        "CAST(D AS DECIMAL(38, 10))",
        "CAST(D AS STRING)",
        "CAST(M AS INT)",
        "CAST(M AS DECIMAL(5, 2))",
    ),
    *("CAST(X AS INT)", "CAST(X AS BIGINT)", "CAST(X AS DOUBLE)", "CAST(X AS STRING)", "CAST(X AS DECIMAL(5, 2))"),
    *(
        "CAST(S AS TIMESTAMP)",
        "CAST(S AS DATE)",
        "CAST(S AS TIME)",
        "CAST(S AS BYTES)",
        "CAST(S AS INT)",
        "CAST(S AS DOUBLE)",
    ),
    *("CAST(S AS DECIMAL(5, 2))", "CAST(S AS BOOLEAN)", "CAST(A AS STRING)", "CAST(A AS ARRAY<STRING>)"),
    *(
        "A[I]",
        "A[J]",
        "SLICE(A, I, J)",
        "SLICE(A, J, I)",
        "GENERATE_SERIES(I, J)",
        "GENERATE_SERIES(B, M)",
        "GENERATE_SERIES(B, M, J)",
    ),
    *(
        "TRANSFORM(A, x => x / I)",
        "REDUCE(A, I, (s, x) => s + x)",
        "FILTER(A, x => x / I > 1)",
        "ARRAY_JOIN(A, S)",
        "ELT(I, S, S)",
        "ELT(J, S, S)",
    ),
    *(
        "SUBSTRING(S, I)",
        "SUBSTRING(S, J, I)",
        "SUBSTRING(S, I, J)",
        "SUBSTRING(Y, J, I)",
        "LPAD(S, J, S)",
        "LPAD(S, I, S)",
        "RPAD(Y, I, Y)",
    ),
    *(
        "INSTR(S, S, J)",
        "INSTR(S, S, I, J)",
        "CHR(I)",
        "CHR(J)",
        "MASK_LEFT(S, I)",
        "SPLIT(S, S)",
        "REPLACE(S, '', S)",
        "LEN(Y)",
        "UUID(Y)",
        "Y < Y",
    ),
    *(
        "INT_FROM_BYTES(Y)",
        "DOUBLE_FROM_BYTES(Y)",
        "FROM_BYTES(Y, 'utf8')",
        "GEO_DISTANCE(D, D, D, D)",
        "S LIKE S",
        "REGEXP_EXTRACT(S, S)",
    ),
)


@pytest.mark.spark
def test_no_value_ends_the_query():
    spark = open_test_session()
    python = PythonCalls()
    context = Context({name: s.column(name) for name in COLUMNS}, python, nested=True)
    trees = {}
    for text in TEXTS:
        result = compile_expression(bind(parse_expression(text), COLUMNS), context)
        trees[text] = s.to_text(s.call("struct", result.value, result.fails if result.fails is not None else s.FALSE))
    register(spark, python)
    kinds = [to_spark(sql_type) for sql_type in COLUMNS.values()]
    rows = []
    for *plain, data in ROWS:
        values = [f"CAST('{value}' AS {kind})" for value, kind in zip(plain, kinds, strict=False)]
        values += [f"X'{data}'", f"array({values[2]}, NULL)"]
        rows.append(f"SELECT {', '.join(values)}")
    spark.sql(" UNION ALL ".join(rows)).toDF(*COLUMNS).createOrReplaceTempView("extremes")
    assert _died(spark, trees) == {}


def _died(spark, trees):
    """The expressions that end a query, each with the error; halves of those that do so together find them."""
    columns = ", ".join(f"{tree} AS c{at}" for at, tree in enumerate(trees.values()))
    try:
        spark.sql(f"SELECT {columns} FROM extremes").toArrow()
    except Exception as error:  # noqa: BLE001 - whatever it is, it would have ended a query
        texts, half = list(trees), len(trees) // 2
        if len(trees) == 1:
            return {texts[0]: str(error)[:200]}
        parts = ({text: trees[text] for text in part} for part in (texts[:half], texts[half:]))
        return {text: message for part in parts for text, message in _died(spark, part).items()}
    return {}
