"""The cost of our expressions, against the same work written by hand in PySpark.

    python -m tests.bench expressions          (ROWS=1000000 ROUNDS=5 by default, as environment variables;
                                                EACH=1 compares one expression at a time, too)

Both run in turns in one session with the settings of production; the median of the ratios counts. Prints first the time
to plan a statement of 20 expressions.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StringType

from kestrel_sql.expressions.columns import Columns
from kestrel_sql.expressions.compiled import Compiled
from kestrel_sql.expressions.compiler import Options
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.session.session import Session
from kestrel_sql.spark.io.columns import to_array, to_list
from kestrel_sql.spark.runtime.session import open_session
from kestrel_sql.spark.types import to_spark
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column as SqlColumn
from kestrel_sql.types.schema import Role
from tests.bench.measure import interleaved, machine, median_ratio

ROWS, ROUNDS = int(os.environ.get("ROWS", "1000000")), int(os.environ.get("ROUNDS", "5"))
EACH = os.environ.get("EACH", "0") == "1"
COLUMNS = {
    "ID": t.BIGINT,
    "N": t.INTEGER,
    "X": t.DOUBLE,
    "NAME": t.STRING,
    "TAGS": t.Array(t.STRING),
    "SEEN": t.TIMESTAMP,
}


@F.pandas_udf(StringType())  # type: ignore[call-overload, untyped-decorator]
def _initcap(values: pd.Series) -> pd.Series:
    return values.map(lambda v: None if v is None else v.title())


@F.pandas_udf(StringType())  # type: ignore[call-overload, untyped-decorator]
def _digits(values: pd.Series) -> pd.Series:
    return values.str.replace(r"[0-9]+", "#", regex=True)


@F.pandas_udf(DoubleType())  # type: ignore[call-overload, untyped-decorator]
def _log(values: pd.Series) -> pd.Series:
    return np.log(values)


NATIVE: dict[str, Callable[[], Column]] = {
    "UCASE(NAME)": lambda: F.upper("NAME"),
    "LCASE(TRIM(NAME))": lambda: F.lower(F.trim("NAME")),
    "LEN(NAME)": lambda: F.length("NAME"),
    "SUBSTRING(NAME, 2, 3)": lambda: F.substring("NAME", 2, 3),
    "CONCAT(NAME, '-', CAST(N AS STRING))": lambda: F.concat_ws("", "NAME", F.lit("-"), F.col("N").cast("string")),
    "REPLACE(NAME, 'a', 'bb')": lambda: F.replace(F.col("NAME"), F.lit("a"), F.lit("bb")),
    "LPAD(NAME, 12, '*')": lambda: F.lpad("NAME", 12, "*"),
    "SPLIT(NAME, '-')": lambda: F.split("NAME", "-"),
    "INSTR(NAME, '5')": lambda: F.instr("NAME", "5"),
    "N + 1": lambda: F.col("N") + 1,
    "N * 3 - ID": lambda: F.col("N") * 3 - F.col("ID"),
    "ABS(X)": lambda: F.abs("X"),
    "SQRT(X) * 2": lambda: F.sqrt("X") * 2,
    "ROUND(X)": lambda: F.floor(F.col("X") + 0.5),
    "CASE WHEN N > 500 THEN 'high' WHEN N > 100 THEN 'mid' ELSE 'low' END": lambda: (
        F.when(F.col("N") > 500, "high").when(F.col("N") > 100, "mid").otherwise("low")
    ),
    "COALESCE(NAME, 'none')": lambda: F.coalesce("NAME", F.lit("none")),
    "TAGS[1]": lambda: F.try_element_at("TAGS", F.lit(1)),
    "ARRAY_CONTAINS(TAGS, 'b')": lambda: F.array_contains("TAGS", "b"),
    "TIMESTAMPADD(DAYS, 1, SEEN)": lambda: F.col("SEEN") + 86_400_000,
    "NAME LIKE '%5%'": lambda: F.col("NAME").like("%5%"),
}
ARROW: dict[str, Callable[[], Column]] = {
    "INITCAP(NAME)": lambda: _initcap("NAME"),
    "REGEXP_REPLACE(NAME, '[0-9]+', '#')": lambda: _digits("NAME"),
    "LN(X)": lambda: _log("X"),
}


def _rows(spark: SparkSession, count: int) -> DataFrame:
    frame = spark.range(count).selectExpr(
        "id AS ID",
        "CAST(id % 1000 AS INT) AS N",
        "CAST(id AS DOUBLE) / 7 + 1 AS X",
        "concat('name-', id % 100000) AS NAME",
        "array('a', 'b', CAST(id AS STRING)) AS TAGS",
        "id * 1000 AS SEEN",
    )
    frame.cache().count()
    return frame


def _ours(rows: DataFrame, texts: Iterable[str]) -> DataFrame:
    compiled = {f"c{i}": _compiled(text) for i, text in enumerate(texts)}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = Columns({name: to_list(batch.column(name)) for name in COLUMNS}, batch.num_rows)
            yield pa.RecordBatch.from_arrays(
                [
                    to_array(each(columns, {}), SqlColumn(name, each.bound.type, Role.VALUE))
                    for name, each in compiled.items()
                ],
                names=list(compiled),
            )

    schema = ", ".join(f"`{name}` {to_spark(each.bound.type)}" for name, each in compiled.items())
    return rows.select(*COLUMNS).mapInArrow(run, schema)


def _compiled(text: str) -> Compiled:
    return Compiled(bind(parse_expression(text), COLUMNS), Options(nested=True))


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _compare(name: str, texts: dict[str, Callable[[], Column]], rows: DataFrame, rounds: int) -> None:
    ours = _ours(rows, texts)
    by_hand = rows.select(*(make().alias(f"c{i}") for i, make in enumerate(texts.values())))
    times = interleaved({"ours": partial(_run, ours), "by hand": partial(_run, by_hand)}, rounds)
    a, b = (statistics.median(times[way]) for way in ("ours", "by hand"))
    ratio = median_ratio(times, "ours", "by hand")
    sys.stdout.write(f"{name}: {len(texts)} expressions, ours {a:.2f} s, by hand {b:.2f} s, ratio {ratio:.2f}\n")


def _each(texts: dict[str, Callable[[], Column]], rows: DataFrame) -> None:
    for text, make in texts.items():
        _compare(text, {text: make}, rows, 3)


def _planning() -> None:
    session = Session()
    columns = "ID BIGINT KEY, N INT, X DOUBLE, NAME STRING, TAGS ARRAY<STRING>, SEEN TIMESTAMP"
    create = f"CREATE STREAM S ({columns}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    session.execute(session.parse(create)[0])
    columns = ", ".join(f"{text} AS C{i}" for i, text in enumerate(NATIVE))
    times = []
    for i in range(20):
        text = f"CREATE STREAM O{i} AS SELECT ID, {columns} FROM S EMIT CHANGES;"
        start = time.process_time()
        parsed = session.parse(text)[0]
        between = time.process_time()
        session.execute(parsed)
        end = time.process_time()
        for expression in NATIVE:
            bound = bind(parse_expression(expression), COLUMNS)
            begin = time.process_time()
            Compiled(bound, Options(nested=True))
            end += time.process_time() - begin
        times.append((between - start, end - between))
    parse, plan = (statistics.median(side) * 1000 for side in zip(*times, strict=True))
    sys.stdout.write(
        f"a statement of {len(NATIVE)} expressions: parse {parse:.1f} ms, plan and compile {plan:.1f} ms of processor"
        " time\n"
    )


def main() -> None:
    """Print the figures."""
    _planning()
    sys.stdout.write(f"{ROWS} rows, {ROUNDS} rounds, {machine()}\n")
    spark = open_session(extra={"spark.driver.memory": "1500m", "spark.ui.showConsoleProgress": "false"})
    rows = _rows(spark, ROWS)
    _compare("native", NATIVE, rows, ROUNDS)
    _compare("Arrow", ARROW, rows, ROUNDS)
    _compare("mixed", {**dict(list(NATIVE.items())[:17]), **ARROW}, rows, ROUNDS)
    if EACH:
        _each({**NATIVE, **ARROW}, rows)
    spark.stop()
