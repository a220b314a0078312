"""One result per record, in order, against Spark's own groupBy in update mode.

Spark's groupBy gives one result per key and micro-batch.

    python -m tests.bench changelog            (ROWS=1000000 ROUNDS=3 by default, as environment variables)

Both count and sum the same typed rows, read from files in micro-batches, and keep their state in Spark's checkpointed
store. No format takes part. The floor passes the rows to a stateful processor in Python that does nothing. Prints rows a
second and the ratio to native. `memory` measures the same query over fifty micro-batches.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.session.session import Session
from kestrel_sql.spark.envelope import HEADERS, LOG, rows_of, struct_column
from kestrel_sql.spark.io.arrow_passes import Batches, Passes
from kestrel_sql.spark.io.blobs import larger
from kestrel_sql.spark.io.topics import empty_lists
from kestrel_sql.spark.pipeline.pipeline import PAGES, Pipeline, build_pipeline
from kestrel_sql.spark.runtime.environment import keep_memory
from kestrel_sql.spark.runtime.session import open_session
from kestrel_sql.spark.types import to_spark
from tests.bench.measure import ddl, interleaved, machine, median_ratio
from tests.bench.peers.floor import echoed
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
_ENVELOPE = ("0 AS q", "ordinal AS off", "0 AS part", "'s' AS topic", "TS AS ts")
_runs = count()


def opened() -> SparkSession:
    """A session as a run has it."""
    keep_memory()
    return open_session("local[2]", SETTINGS)


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


def between(spark: SparkSession, rows: Passes, pipeline: Pipeline, partitions: int = 1) -> DataFrame:
    """The rows of the sinks, as Spark's own rows."""
    schema = rows_of(sink.relation for sink in pipeline.graph.sinks)

    def chosen(batches: Batches) -> Batches:
        for batch in batches:
            yield batch.select(schema.names)

    made = pipeline.between(rows, PAGES, [partitions])
    return made.through(chosen).frame(ddl(schema))


def decoded(
    rows: DataFrame, pipeline: Pipeline, values: Mapping[str, str], relation: str = "0", task: str = "0"
) -> Passes:
    """Typed rows as decoding gives them, made where it makes them; `values` are the texts of the value columns."""
    sources = pipeline.graph.sources
    types = {"K": "BIGINT"} | {
        column.name: to_spark(column.type) for source in sources for column in source.relation.schema.value
    }
    texts = {name: f"CAST({values[name]} AS {kind})" for name, kind in types.items()}
    given = [*_ENVELOPE, f"CAST({relation} AS INT) AS rel", f"CAST({task} AS INT) AS task"]
    relations = [source.relation for source in sources]
    return (
        Passes(rows.selectExpr(*given, *(f"{text} AS `{name}`" for name, text in texts.items())))
        .through(larger)
        .through(partial(_decoded, relations))
    )


def _decoded(relations: Sequence[Relation], batches: Batches) -> Batches:
    schema = rows_of(relations)
    structs = {each.number: schema.field(struct_column(each.number)).type for each in relations}
    for batch in batches:
        count = batch.num_rows
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        places = pa.array(np.arange(0, 2 * count + 1, 2, dtype=np.int32))
        numbers = np.column_stack([columns["off"].to_numpy(), np.zeros(count, dtype=np.int64)]).ravel()
        made = {
            "ordinal": pa.ListArray.from_arrays(places, pa.array(numbers)),
            "headers": empty_lists(count, HEADERS),
            "log": empty_lists(count, LOG),
        }
        for relation, kind in structs.items():
            parts = [
                pa.StructArray.from_arrays([columns[field.name] for field in part.type], fields=list(part.type))
                for part in kind
            ]
            others = pc.not_equal(columns["rel"], relation)
            made[struct_column(relation)] = pa.StructArray.from_arrays(parts, fields=list(kind), mask=others)
        found = columns | made
        arrays = [found[name] if name in found else pa.nulls(count, schema.field(name).type) for name in schema.names]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def drained(frame: DataFrame, folder: Path, mode: str = "update") -> list[StreamingQueryProgress]:
    """Run a stream to its end and discard its rows; returns Spark's reports of its batches."""
    checkpoint = folder / f"checkpoint-{next(_runs)}"
    writer = frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return query.recentProgress


def compared(spark: SparkSession, keys: int, rounds: int = ROUNDS) -> tuple[Mapping[str, float], float, float]:
    """Measure ours and the floor against native for a number of keys.

    Returns the rates (rows a second), and the ratios to native of ours and of the floor.
    """
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

    def floor() -> None:
        drained(echoed(stream(spark, given), "K", "V"), folder)

    seconds = interleaved({"native": native, "ours": ours, "floor": floor}, rounds)
    shutil.rmtree(folder, ignore_errors=True)
    rates = {name: ROWS / statistics.median(each) for name, each in seconds.items()}
    return rates, 1 / median_ratio(seconds, "ours", "native"), 1 / median_ratio(seconds, "floor", "native")


def main() -> None:
    """Measure and print."""
    spark = opened()
    print(f"{ROWS:,} rows in {BATCHES} micro-batches, every row a result, {machine()}, median of {ROUNDS} rounds")
    rows = []
    for keys, goal in ((1_000, 0.6), (100_000, 0.8)):
        rates, ratio, floor = compared(spark, keys)
        cells = (f"{rates[name]:,.0f}" for name in ("ours", "native", "floor"))
        rows.append([f"{keys:,}", *cells, f"{ratio:.2f}", reached_or_missed(ratio, goal, floor)])
    spark.stop()
    columns = ["Keys", "Kestrel, rows a second", "Spark's groupBy", "Floor", "Ratio", "Goal"]
    write_table("changelog", columns, rows)


def reached_or_missed(ratio: float, goal: float, floor: float) -> str:
    """The cell of a goal: at least this ratio to Spark's own, and what the floor has if it is missed."""
    return f"{goal}, reached" if ratio >= goal else f"{goal}, missed; the floor has {floor:.2f}"
