"""A pull query by key over a large table, against Spark's state data source reading the whole state.

    python -m tests.bench pull                 (ROWS=1000000 ROUNDS=10 by default, as environment variables)

The table counts and sums its rows per key; each key has one row. Its state has `PAGES` pages, as in a running query.
Prints the ms of three look-ups and their ratios to Spark: page in memory, page read and decoded, first after a new
batch.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from kestrel_sql.dataflow.queryable import queryable_table
from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.queries.pull import plan_pull
from kestrel_sql.queries.pull_state import TableReader, pull_rows
from kestrel_sql.queries.spark_execution import CheckpointTable
from kestrel_sql.session.session import Session
from kestrel_sql.spark.io.topics import WIRE_INPUT
from kestrel_sql.spark.pipeline.pipeline import PAGES, Pipeline, build_pipeline
from kestrel_sql.spark.runtime.session import open_session
from kestrel_sql.spark.state.checkpoint_reader import CheckpointReader
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import parse_statement
from tests.bench.measure import interleaved, machine, median_ratio

ROWS = int(os.environ.get("ROWS", "1000000"))
ROUNDS = int(os.environ.get("ROUNDS", "10"))
FILE_ROWS = 250_000
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1500m",
    "spark.ui.showConsoleProgress": "false",
}
_SPARK = "Spark reads the whole state"
STATEMENTS = """
CREATE STREAM S (ID BIGINT KEY, V BIGINT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');
CREATE TABLE T AS SELECT ID, COUNT(*) AS N, SUM(V) AS TOTAL FROM S GROUP BY ID;
"""


def write_file(folder: Path, number: int, keys: range) -> None:
    """Write records of some keys to one file, which becomes one micro-batch."""
    size = len(keys)
    columns: dict[str, Any] = {
        "q": pa.array([0] * size, pa.int32()),
        "feed": pa.array(keys, pa.int64()),
        "topic": ["s"] * size,
        "part": pa.array([0] * size, pa.int32()),
        "off": pa.array(keys, pa.int64()),
        "ts": pa.array([0] * size, pa.int64()),
        "key": [b"%d" % key for key in keys],
        "value": [b'{"V":%d}' % key for key in keys],
        "headers": pa.array([[]] * size, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    }
    pq.write_table(pa.table(columns), folder / f"{number:04}.parquet")


def advance(spark: SparkSession, pipeline: Pipeline, folder: Path) -> None:
    """Process the new files."""
    records = spark.readStream.schema(WIRE_INPUT).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    frame = pipeline.frame(records, PAGES)
    writer = (
        frame.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(folder / "checkpoint"))
    )
    writer.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Measure and print."""
    spark = open_session("local[2]", SETTINGS)
    folder = Path(tempfile.mkdtemp(prefix="kestrel-bench-"))
    (folder / "in").mkdir()
    session = Session()
    for parsed in session.parse(STATEMENTS):
        session.execute(parsed)
    (query,) = session.queries.values()
    pipeline = build_pipeline([QueryRun(plan=query.plan, settings=query.config, serde=session.serde(), queryable=True)])
    for number, first in enumerate(range(0, ROWS, FILE_ROWS)):
        write_file(folder / "in", number, range(first, min(ROWS, first + FILE_ROWS)))
    advance(spark, pipeline, folder)

    kept = queryable_table(pipeline.graph, 0, query.plan.physical_plan)
    assert kept is not None
    warm, cold = (CheckpointReader(spark, str(folder / "checkpoint"), levels=1, tasks=1, pages=PAGES) for _ in range(2))
    tables = [
        TableReader(
            source=session.catalog.sources["T"],
            stored=CheckpointTable(kept, reader),
            functions=session.functions,
            settings=query.config,
            serde=session.serde(),
            query_id=query.id,
        )
        for reader in (warm, cold)
    ]
    chosen = random.Random(7)

    def look_up(key: int, table: TableReader = tables[0]) -> None:
        statement = parse_statement(f"SELECT * FROM T WHERE ID = {key};")
        assert isinstance(statement, Query)
        planned = plan_pull(statement, session.catalog, session.config, "q", session.functions)
        (row,) = pull_rows(planned, table, [])
        assert row.values[0] == key

    def remembered() -> None:
        look_up(42)

    def read() -> None:
        cold._forget()
        look_up(chosen.randrange(ROWS), tables[1])

    def whole() -> None:
        source = (
            spark.read.format("statestore")
            .option("path", warm.path)
            .option("operatorId", 0)
            .option("stateVarName", "page")
        )
        assert source.load().toArrow().num_rows == PAGES

    look_up(42)
    ways = {_SPARK: whole, "page remembered": remembered, "page read right after that": read, "page read": read}
    seconds = interleaved(ways, ROUNDS, warm_up=2)
    print(f"a look-up by key in {ROWS:,} rows, {PAGES} pages, {machine()}, median of {ROUNDS} rounds")
    for name, taken in seconds.items():
        ratio = 1 / median_ratio(seconds, name, _SPARK)
        print(f"  {name:28} {sorted(taken)[len(taken) // 2] * 1000:9.1f} ms   {ratio:8.1f} times as fast as Spark")
    write_file(folder / "in", 9999, range(10))
    advance(spark, pipeline, folder)
    started = time.perf_counter()
    look_up(42)
    print(f"  {'first after a new batch':28} {(time.perf_counter() - started) * 1000:9.1f} ms")
    warm.close()
    cold.close()
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)
