"""One result per record, in order, against Spark's own groupBy in update mode.

Spark's groupBy gives one result per key and micro-batch.

    python -m tests.bench changelog            (ROWS=1000000 ROUNDS=3 by default, as environment variables)

Both count and sum the same typed rows, read from files in micro-batches, and keep their state in Spark's checkpointed
store. No format takes part. Prints rows a second and the ratio to native. `memory` measures the same query over fifty
micro-batches.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from kestrel_sql.session.session import Session
from kestrel_sql.spark.io.arrow_passes import Passes
from kestrel_sql.spark.pipeline.pipeline import PAGES, Pipeline, QueryRun, build_pipeline
from kestrel_sql.spark.runtime.session import open_session
from kestrel_sql.spark.stages.handles import row_columns
from kestrel_sql.spark.stages.stage import ENVELOPE
from kestrel_sql.spark.types import schema_text
from tests.bench.measure import interleaved, machine, median_ratio
from tests.bench.tables import write_table

ROWS = int(os.environ.get("ROWS", "1000000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
BATCHES = 5
FILES = 2
"""Files of a micro-batch: one for each core."""

STATEMENTS = """
CREATE STREAM S (K BIGINT KEY, V BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE T AS SELECT K, COUNT(*) AS N, SUM(V) AS TOTAL FROM S GROUP BY K;
"""
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1500m",
    "spark.ui.showConsoleProgress": "false",
}
_runs = count()


def planned(statements: str) -> Pipeline:
    """The pipeline of the last statement."""
    session = Session()
    for statement in session.parse(statements):
        session.execute(statement)
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan, settings=query.config, serde=session.serde())])


def write_rows(folder: Path, columns: dict[str, np.ndarray[Any, Any]], batches: int = BATCHES) -> None:
    """Rows as Parquet files, `FILES` for each micro-batch; Spark takes files in the order of their times."""
    table = pa.table({"ordinal": np.arange(len(next(iter(columns.values())))), **columns})
    size = -(-table.num_rows // (batches * FILES))
    for number in range(batches * FILES):
        file = folder / f"{number:04}.parquet"
        pq.write_table(table.slice(number * size, size), file)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """The files as a stream of one micro-batch after the other."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES).parquet(str(folder))


def between(spark: SparkSession, rows: DataFrame, pipeline: Pipeline, partitions: int = 1) -> DataFrame:
    """The rows of the sinks, as Spark's own rows."""
    columns = row_columns([sink.handle for sink in pipeline.group.sinks])

    def chosen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.select(list(columns))

    made = pipeline.between(spark, Passes(rows), PAGES, [partitions])
    return made.through(chosen).frame(schema_text(columns))


def decoded(
    rows: DataFrame, pipeline: Pipeline, values: dict[str, str], relation: str = "0", task: str = "0"
) -> DataFrame:
    """Typed rows as decoding would give them; `values` are the texts of the value columns."""
    envelope = {
        "rel": relation,
        "q": "0",
        "ordinal": "array(ordinal, 0L)",
        "ts": "TS",
        "topic": "'s'",
        "part": "0",
        "off": "ordinal",
        "task": task,
        "headers": f"CAST(array() AS {ENVELOPE['headers']})",
        "log": f"CAST(array() AS {ENVELOPE['log']})",
    }
    columns = [f"CAST({envelope.get(name, 'NULL')} AS {kind}) AS {name}" for name, kind in ENVELOPE.items()]
    for source in pipeline.group.sources:
        fields = ", ".join(f"'{column.name}', {values[column.name]}" for column in source.handle.schema.value)
        struct = (
            f"CAST(named_struct('k', named_struct('K', K), 'v', named_struct({fields})) AS"
            f" {source.handle.struct_type()})"
        )
        columns.append(f"CASE WHEN ({relation}) = {source.relation} THEN {struct} END AS r{source.relation}")
    return rows.selectExpr(*columns)


def drained(frame: DataFrame, folder: Path, mode: str = "update") -> list[StreamingQueryProgress]:
    """Run a stream to its end and discard its rows; returns Spark's reports of its batches."""
    checkpoint = folder / f"checkpoint-{next(_runs)}"
    writer = frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return query.recentProgress


def compared(spark: SparkSession, keys: int, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Measure ours against native for a number of keys; returns both rates (rows a second) and the ratio of ours."""
    folder = Path(tempfile.mkdtemp(prefix="kestrel-bench-"))
    random = np.random.default_rng(keys)
    given = folder / "in"
    given.mkdir()
    write_rows(given, {"K": random.integers(0, keys, ROWS), "V": random.integers(0, 100, ROWS), "TS": np.arange(ROWS)})
    pipeline = planned(STATEMENTS)
    values = {"V": "V", "ROWTIME": "TS", "ROWPARTITION": "0", "ROWOFFSET": "ordinal", "K": "K"}

    def ours() -> None:
        drained(between(spark, decoded(stream(spark, given), pipeline, values), pipeline), folder)

    def native() -> None:
        drained(stream(spark, given).groupBy("K").agg(F.count("*").alias("N"), F.sum("V").alias("TOTAL")), folder)

    seconds = interleaved({"native": native, "ours": ours}, rounds)
    shutil.rmtree(folder, ignore_errors=True)
    native_rate, own_rate = (ROWS / statistics.median(seconds[name]) for name in ("native", "ours"))
    return native_rate, own_rate, 1 / median_ratio(seconds, "ours", "native")


def main() -> None:
    """Measure and print."""
    spark = open_session("local[2]", SETTINGS)
    print(f"{ROWS:,} rows in {BATCHES} micro-batches, every row a result, {machine()}, median of {ROUNDS} rounds")
    rows = []
    for keys, goal in ((1_000, 0.6), (100_000, 0.8)):
        native, ours, ratio = compared(spark, keys)
        reached = "reached" if ratio >= goal else "missed"
        rows.append([f"{keys:,}", f"{ours:,.0f}", f"{native:,.0f}", f"{ratio:.2f}", f"{goal}, {reached}"])
    spark.stop()
    write_table("changelog", ["Keys", "Kestrel, rows a second", "Spark's groupBy", "Ratio", "Goal"], rows)


if __name__ == "__main__":
    main()
