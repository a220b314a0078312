"""A million records of ten fields, read and written by our formats and by Spark's `from_json` and `to_json`.

    python -m tests.bench formats    (ROWS=1000000 ROUNDS=5 FORMATS="JSON AVRO" and so on, as environment variables)

Prints rows a second and the ratios to Spark.
All ways start from the same stored column and end in an aggregate over all results, because Spark omits unused work.
The way "there and back" passes the same rows to Python and back; no format in Python can be faster.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session
from kestrel_sql.spark.envelope import ENVELOPE_FIELDS, rows_of, struct_column, struct_text
from kestrel_sql.spark.io.topics import WIRE_OUTPUT, decode_batches, encode_batches
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.runtime.session import open_session
from tests.bench.measure import columns_of, ddl, interleaved, machine, median_ratio

ROWS, ROUNDS = int(os.environ.get("ROWS", "1000000")), int(os.environ.get("ROUNDS", "5"))
FORMATS = os.environ.get("FORMATS", "JSON AVRO PROTOBUF JSON_SR PROTOBUF_NOSR").split()
COLUMNS = "ID BIGINT, N INT, X DOUBLE, NAME STRING, OK BOOLEAN, CITY STRING, SEEN BIGINT, Y DOUBLE, Q INT, NOTE STRING"
_STRUCT = f"STRUCT<{COLUMNS.replace(' ', ': ').replace(',:', ',')}>"
_ROWS = (
    "id AS ID",
    "CAST(id % 1000 AS INT) AS N",
    "CAST(id AS DOUBLE) / 7 + 1 AS X",
    "concat('name-', id % 100000) AS NAME",
    "id % 2 = 0 AS OK",
    "concat('city ', id % 37) AS CITY",
    "1700000000000 + id AS SEEN",
    "CAST(id AS DOUBLE) AS Y",
    "CAST(-id AS INT) AS Q",
    "concat('some longer text here ', id) AS NOTE",
)
_RECORD = (
    "0 AS q",
    "CAST(0 AS BIGINT) AS feed",
    "'in' AS topic",
    "0 AS part",
    "CAST(0 AS BIGINT) AS off",
    "CAST(0 AS BIGINT) AS ts",
    "CAST(NULL AS BINARY) AS key",
    "value",
    "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
)


@dataclass(frozen=True, slots=True)
class Ends:
    """What is measured for one format: ways to do the work, by name."""

    reading: dict[str, Callable[[], None]]
    writing: dict[str, Callable[[], None]]


def pipeline(format: str) -> Pipeline:
    """The pipeline of a query that copies a stream."""
    session = Session(config=Config.of({}))
    text = (
        f"CREATE STREAM S ({COLUMNS}) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='{format}');"
        f"CREATE STREAM O WITH (KAFKA_TOPIC='out') AS SELECT * FROM S;"
    )
    for parsed in session.parse(text):
        session.execute(parsed)
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan, settings=query.config, serde=session.serde())])


def _kept(frame: DataFrame) -> DataFrame:
    kept = frame.persist(StorageLevel.DISK_ONLY)
    kept.count()
    return kept


def _as_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def ends(spark: SparkSession, format: str, count: int) -> Ends:
    """Prepare the same records as bytes of the format, as JSON, and as columns."""
    built = pipeline(format)
    (sink,), (source,) = built.graph.sinks, built.graph.sources
    to, names = struct_column(sink.relation.number), [each.split()[0] for each in COLUMNS.split(", ")]
    known = {
        "rel": str(sink.relation.number),
        "q": "0",
        "part": "0",
        "ordinal": "array(0)",
        "headers": "array()",
        "log": "array()",
    }
    kinds = columns_of(pa.schema(ENVELOPE_FIELDS))
    envelope = [f"CAST({known.get(each, 'NULL')} AS {kind}) AS {each}" for each, kind in kinds.items()]
    rows = _kept(spark.range(count).selectExpr(*_ROWS))
    text = f"CAST(to_json(struct({', '.join(names)})) AS BINARY) AS value"
    row = f"named_struct('k', NULL, 'v', struct({', '.join(names)}))"
    results = rows.selectExpr(*envelope, f"CAST({row} AS {struct_text(sink.relation)}) AS {to}")
    written = results.mapInArrow(encode_batches([sink]), WIRE_OUTPUT)
    bytes_of_format, texts = _kept(written.select("value")), _kept(rows.selectExpr(text))
    records = bytes_of_format.selectExpr(*_RECORD)
    read = records.mapInArrow(decode_batches([source]), ddl(rows_of([source.relation])))
    parsed = texts.selectExpr(f"from_json(CAST(value AS STRING), '{_STRUCT}') AS v")
    all_values = [f"count(v.{each})" for each in names]
    size = "sum(length(value))"
    return Ends(
        {
            "ours": lambda: _collect(read.selectExpr(f"{struct_column(source.relation.number)}.v AS v"), *all_values),
            "from_json": lambda: _collect(parsed, *all_values),
            "there and back": lambda: _collect(records.mapInArrow(_as_is, records.schema), size),
        },
        {
            "ours": lambda: _collect(written, size),
            "to_json": lambda: _collect(rows.selectExpr(text), size),
            "from_json": lambda: _collect(parsed, *all_values),
            "there and back": lambda: _collect(
                results.mapInArrow(_as_is, results.schema), *(f"count({to}.v.{each})" for each in names)
            ),
        },
    )


def _collect(frame: DataFrame, *aggregates: str) -> None:
    frame.selectExpr(*aggregates).collect()


def _report(format: str, work: str, count: int, ways: dict[str, Callable[[], None]], rounds: int) -> None:
    seconds = interleaved(ways, rounds)
    rates = ", ".join(f"{each} {count / statistics.median(times) / 1000:.0f}" for each, times in seconds.items())
    # Rows a second, so that more is better: the inverse of the ratio of the times.
    ratios = ", ".join(f"{1 / median_ratio(seconds, 'ours', each):.2f} of {each}" for each in ways if each != "ours")
    print(f"{format} {work}, thousand rows a second: {rates}; ours is {ratios}")


def main() -> None:
    """Print the figures."""
    print(machine())
    spark = open_session(extra={"spark.driver.memory": "1300m", "spark.ui.showConsoleProgress": "false"})
    for format in FORMATS:
        made = ends(spark, format, ROWS)
        _report(format, "read", ROWS, made.reading, ROUNDS)
        _report(format, "written", ROWS, made.writing, ROUNDS)
        spark.catalog.clearCache()
    spark.stop()
