"""The cost of projections as people write them, against the same work written by hand in Spark SQL.

    python -m tests.bench expressions          (ROWS=300000 ROUNDS=7 by default, as environment variables; ONLY=lambda
                                                measures the projections whose name has the word, EACH=1 each expression)

The projections are in `projections.yaml`. Rows of Spark's cache go through three ways in turns, in one session with the
settings of production: Kestrel's pass in Python; Spark SQL between two passes in Python that do nothing, as it would run
in a query, whose rows are decoded and encoded there; and Spark SQL alone. All give the same values, which is checked.
Figures are microseconds of processor time of all processes, medians over the rounds. Prints first the time to plan a
statement of 20 expressions.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.arrow.columns import to_array, to_list
from kestrel_sql.expressions.columns import Columns, lazy_columns
from kestrel_sql.expressions.compiler import Options
from kestrel_sql.expressions.sendable import Compiled
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.session.session import Session
from kestrel_sql.spark.runtime.session import open_session
from kestrel_sql.spark.types import to_spark
from kestrel_sql.sql.parse.parser import parse_columns, parse_expression
from kestrel_sql.types.own_scales import with_own_scales
from kestrel_sql.types.schema import Column as SqlColumn
from kestrel_sql.types.schema import Role
from kestrel_sql.types.sql_types import STRING, SqlType
from tests.bench.measure import interleaved, machine, median_ratio, processor_seconds
from tests.bench.tables import write_rows

ROWS, ROUNDS = int(os.environ.get("ROWS", "300000")), int(os.environ.get("ROUNDS", "7"))
EACH, ONLY = os.environ.get("EACH", "0") == "1", os.environ.get("ONLY", "")
SOURCE: Mapping[str, tuple[str, str]] = {
    "ID": ("BIGINT", "id"),
    "N": ("INT", "CAST(id % 1000 AS INT)"),
    "X": ("DOUBLE", "CAST(id AS DOUBLE) / 7 + 1"),
    "PRICE": ("DECIMAL(10, 2)", "CAST(id % 100000 / 100 AS DECIMAL(10, 2))"),
    "ACTIVE": ("BOOLEAN", "id % 3 = 0"),
    "NAME": ("STRING", "CONCAT('name ', id % 10000)"),
    "NICK": ("STRING", "IF(id % 4 = 0, NULL, CONCAT('nick-', id % 100))"),
    "EMAIL": ("STRING", "CONCAT('User', id % 10000, '@example.com')"),
    "DIGITS": ("STRING", "LPAD(CAST(id % 10000 AS STRING), 6, '0')"),
    "DOC": (
        "STRING",
        """CONCAT('{"user": "u', id % 1000, '", "cart": {"total": ', id % 100, '.5, "items": ["a", "b", "c"]}}')""",
    ),
    "TAKEN": ("STRING", "DATE_FORMAT(TIMESTAMP_SECONDS(1700000000 + id * 61), 'yyyy-MM-dd HH:mm:ss')"),
    "BORN": ("STRING", "DATE_FORMAT(DATE_FROM_UNIX_DATE(CAST(id % 20000 AS INT)), 'yyyy-MM-dd')"),
    "SEEN": ("TIMESTAMP", "1700000000000 + id * 61001"),
    "DAY": ("DATE", "CAST(id % 20000 AS INT)"),
    "TAGS": ("ARRAY<STRING>", "ARRAY('a', 'b', CAST(id AS STRING))"),
    "NUMS": ("ARRAY<INT>", "ARRAY(1, 5, CAST(id % 10 AS INT), 5)"),
    "ATTRS": ("MAP<STRING, STRING>", "MAP('a', CAST(id % 100 AS STRING), 'b', 'x')"),
    "ADDRESS": (
        "STRUCT<STREET STRING, CITY STRING, GEO STRUCT<LAT DOUBLE, LON DOUBLE>>",
        """NAMED_STRUCT('STREET', CONCAT('street ', id % 100), 'CITY', CONCAT('City ', id % 50),
            'GEO', NAMED_STRUCT('LAT', CAST(id % 90 AS DOUBLE), 'LON', CAST(id % 180 AS DOUBLE)))""",
    ),
}
"""The columns of the source: their types, and what they are made of in Spark SQL."""

COLUMNS = {column.name: column.type for column in parse_columns(", ".join(f"{n} {t}" for n, (t, _) in SOURCE.items()))}
Texts = Sequence[tuple[str, str]]
"""Expressions of Kestrel, and the same in Spark SQL."""


def projections() -> Mapping[str, Texts]:
    """The projections of `projections.yaml` by name."""
    given = yaml.safe_load(Path(__file__).with_name("projections.yaml").read_text(encoding="utf-8"))
    return {name: [(each, each) if isinstance(each, str) else tuple(each) for each in given[name]] for name in given}


def _rows(spark: SparkSession, count: int) -> DataFrame:
    frame = spark.range(count).selectExpr(*(f"{text} AS {name}" for name, (_, text) in SOURCE.items()))
    frame.cache().count()
    return frame


def _ours(rows: DataFrame, texts: Texts) -> DataFrame:
    compiled = {f"c{i}": _compiled(ours) for i, (ours, _) in enumerate(texts)}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = _columns(batch)
            yield pa.RecordBatch.from_arrays(
                [_array(each, columns) for each in compiled.values()],
                names=list(compiled),
            )

    return rows.mapInArrow(run, ", ".join(f"`{name}` {to_spark(_type(each))}" for name, each in compiled.items()))


def _columns(batch: pa.RecordBatch) -> Columns:
    return Columns(lazy_columns(lambda name: to_list(batch.column(name))), batch.num_rows, arrays=batch.column)


def _array(each: Compiled, columns: Columns) -> pa.Array:
    found = each.arrays(columns, _type(each))
    return to_array(each(columns, {}), SqlColumn("", _type(each), Role.VALUE)) if found is None else found


def _compiled(text: str) -> Compiled:
    return Compiled(bind(parse_expression(text), COLUMNS), Options(nested=True))


def _type(each: Compiled) -> SqlType:
    """The type of a column of a sink, which brings DECIMALs to their scales."""
    return with_own_scales(each.bound.type or STRING, False)


def _by_hand(rows: DataFrame, texts: Texts) -> DataFrame:
    return rows.selectExpr(*(f"{by_hand} AS c{i}" for i, (_, by_hand) in enumerate(texts)))


def _passed(rows: DataFrame) -> DataFrame:
    """The rows after a pass in Python that does nothing."""
    return rows.mapInArrow(lambda batches: batches, rows.schema)


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _check(name: str, texts: Texts, ours: DataFrame, by_hand: DataFrame) -> None:
    """Check that both give the same values.

    Raises:
        ValueError: a value differs.
    """
    pairs = zip(ours.limit(200).collect(), by_hand.limit(200).collect(), strict=True)
    for ours_row, their_row in pairs:
        for (text, _), value, theirs in zip(texts, ours_row, their_row, strict=True):
            if not _is_same(value, theirs):
                raise ValueError(f"{name}: {text} is {value!r} here, and {theirs!r} in Spark SQL")


def _is_same(value: Any, theirs: Any) -> bool:
    if isinstance(value, float | Decimal) and theirs is not None:
        return abs(float(value) - float(theirs)) <= 1e-9 * abs(float(value))
    return bool(value == theirs)


def _measure(name: str, texts: Texts, rows: DataFrame) -> tuple[list[str], float, float]:
    """Measure a projection: its line of the table, and the seconds of Kestrel and of Spark SQL in a query."""
    named = [column for column in SOURCE if any(column in theirs for _, theirs in texts)]
    source = rows.select(*named)
    ours, by_hand = _ours(source, texts), _by_hand(source, texts)
    _check(name, texts, ours, by_hand)
    ways = {"ours": ours, "in a query": _passed(_by_hand(_passed(source), texts)), "alone": by_hand}
    clock = partial(processor_seconds, os.getpid())
    times = interleaved({way: partial(_run, frame) for way, frame in ways.items()}, ROUNDS, clock=clock)
    cost = {way: statistics.median(times[way]) / ROWS * 1e6 for way in ways}
    ratios = [f"{median_ratio(times, 'ours', way):.2f}" for way in ("in a query", "alone")]
    return (
        [name, str(len(texts)), *(f"{each:.1f}" for each in cost.values()), *ratios],
        cost["ours"],
        cost["in a query"],
    )


def _planning() -> None:
    session, chosen = Session(), [texts[0][0] for texts in projections().values()][:20]
    columns = ", ".join(f"{name} {of}{' KEY' if name == 'ID' else ''}" for name, (of, _) in SOURCE.items())
    create = f"CREATE STREAM S ({columns}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    session.execute(session.parse(create)[0])
    columns = ", ".join(f"{text} AS C{i}" for i, text in enumerate(chosen))
    times = []
    for i in range(20):
        text = f"CREATE STREAM O{i} AS SELECT ID, {columns} FROM S EMIT CHANGES;"
        start = time.process_time()
        parsed = session.parse(text)[0]
        between = time.process_time()
        session.execute(parsed)
        end = time.process_time()
        for expression in chosen:
            bound = bind(parse_expression(expression), COLUMNS)
            begin = time.process_time()
            Compiled(bound, Options(nested=True))
            end += time.process_time() - begin
        times.append((between - start, end - between))
    parse, plan = (statistics.median(side) * 1000 for side in zip(*times, strict=True))
    sys.stdout.write(
        f"a statement of {len(chosen)} expressions: parse {parse:.1f} ms, plan and compile {plan:.1f} ms of processor"
        " time\n"
    )


def main() -> None:
    """Print the figures."""
    _planning()
    sys.stdout.write(f"{ROWS} rows, {ROUNDS} rounds, {machine()}\n")
    spark = open_session(extra={"spark.driver.memory": "1500m", "spark.ui.showConsoleProgress": "false"})
    rows = _rows(spark, ROWS)
    chosen = {name: texts for name, texts in projections().items() if ONLY in name}
    if EACH:
        chosen = {text: [(text, by_hand)] for texts in chosen.values() for text, by_hand in texts}
    lines, ours, by_hand = zip(*(_measure(name, texts, rows) for name, texts in chosen.items()), strict=True)
    if not (ONLY or EACH):
        number, total = str(sum(map(len, chosen.values()))), (sum(ours), sum(by_hand))
        lines = (*lines, ["all", number, *(f"{each:.1f}" for each in total), "", f"{total[0] / total[1]:.2f}", ""])
    write_rows("projections", _HEAD, lines)
    spark.stop()


_HEAD = (
    "projection",
    "expressions",
    "Kestrel, µs a row",
    "Spark SQL in a query",
    "Spark SQL alone",
    "ratio in a query",
    "ratio alone",
)
