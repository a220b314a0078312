"""State of ten million keys: batches over it, a restart, memory, and look-ups by key (docs/performance.md).

    KEYS=10000000 python -m tests.bench keys   (PART=1000000 keys a batch while it grows, ROUNDS=3 measured batches)

A query counts and sums by key, as one task with `PAGES` pages. A first process fills the state and measures batches of
10,000 records; a second one resumes from the checkpoint. Prints the seconds beside those of the model, and adds the
point to those of tests/bench/scale_points.json.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.kafka.run.broker_session import SESSION
from kestrel_sql.session.session import Session
from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.io.topics import WIRE_INPUT
from kestrel_sql.spark.pipeline.pipeline import PAGES, Pipeline, build_pipeline
from kestrel_sql.spark.runtime.session import open_session
from tests.bench.kafka_memory import memory
from tests.bench.measure import machine
from tests.bench.scale_model import Point, fit, read_points, write_points

KEYS, PART = (int(os.environ.get(name, default)) for name, default in (("KEYS", "10000000"), ("PART", "1000000")))
RECORDS, ROUNDS = 10_000, int(os.environ.get("ROUNDS", "3"))
_SETTINGS = {**SESSION, "spark.sql.shuffle.partitions": "1", "spark.driver.memory": "2g"}
_SQL = """
CREATE STREAM S (K STRING KEY, V BIGINT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE A AS SELECT K, COUNT(*) AS N, SUM(V) AS X FROM S GROUP BY K;
"""
_RESUME = "KESTREL_BENCH_FOLDER"
"""The environment variable that tells the second process where the first one left its checkpoint."""


class Growing:
    """The query over files of records, with its checkpoint below a folder; it opens Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = Session()
        for parsed in self.session.parse(_SQL):
            self.session.execute(parsed)
        (self.query,) = self.session.queries.values()
        run = QueryRun(plan=self.query.plan, settings=self.query.config, serde=self.session.serde(), queryable=True)
        self.pipeline: Pipeline = build_pipeline([run])
        self.spark: SparkSession = open_session("local[*]", _SETTINGS)
        self._fed = len(list((folder / "in").iterdir()))

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def check(self) -> None:
        """Check the checkpoint as a run does when it starts."""
        check_start(lambda: self.spark, self.pipeline, self.checkpoint, pages=PAGES, tasks=[1], has_task_pages=True)

    def batch(self, keys: Sequence[int]) -> float:
        """Process a record of each key as one batch; returns the seconds that Spark measured."""
        _write(self.folder / "in" / f"{self._fed:04}.parquet", keys)
        self._fed += 1
        records = self.spark.readStream.schema(WIRE_INPUT).option("maxFilesPerTrigger", 1)
        frame = self.pipeline.frame(records.parquet(str(self.folder / "in")), PAGES, tasks=[1], has_task_pages=True)
        writer = frame.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        query.awaitTermination()
        progress: Any = query.recentProgress[-1]
        return float(progress["durationMs"]["triggerExecution"]) / 1000


def main() -> None:
    """Fill the state in this process, and resume in another."""
    given = os.environ.get(_RESUME)
    if given:
        _resume(Path(given))
        return
    folder = Path(tempfile.mkdtemp(prefix="kestrel-bench-"))
    try:
        (folder / "in").mkdir()
        _fill(folder)
        command = [sys.executable, "-m", "tests.bench", "keys"]
        subprocess.run(command, check=True, env={**os.environ, _RESUME: str(folder)})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(folder: Path) -> None:
    print(f"{KEYS:,} keys, {machine()}, load {os.getloadavg()[0]:.1f}")
    growing, random_ = Growing(folder), random.Random(7)
    growing.check()
    for first in range(0, KEYS, PART):
        taken = growing.batch(range(first, min(KEYS, first + PART)))
        print(f"  {PART:,} new keys after {first:,}: {taken:.1f} s", flush=True)
    rounds = [growing.batch(_some(random_)) for _ in range(ROUNDS)]
    point = Point(queries=1, tasks=1, pages=PAGES, keys=KEYS, records=RECORDS, seconds=min(rounds))
    others = [each for each in read_points() if replace(each, seconds=point.seconds) != point]
    model = fit(others)
    write_points([*others, point])
    print(f"a batch of {RECORDS:,} records: {', '.join(f'{taken:.1f}' for taken in rounds)} s")
    print(f"the model says {model.predict(point):.1f} s ({model.error(point):+.0%})")
    _print_memory()
    versions = [file.stat().st_size for file in (growing.checkpoint / "state").rglob("*") if file.is_file()]
    print(f"checkpoint: {sum(versions) / 1e6:,.0f} MB, the largest file {max(versions) / 1e6:,.0f} MB")
    growing.spark.stop()


def _resume(folder: Path) -> None:
    started = time.perf_counter()
    growing, random_ = Growing(folder), random.Random(8)
    opened = time.perf_counter()
    growing.check()
    checked = time.perf_counter()
    first = growing.batch(_some(random_))
    print(
        f"restart: Spark {opened - started:.1f} s, check of the state {checked - opened:.1f} s, first batch"
        f" {first:.1f} s; together {time.perf_counter() - started:.1f} s"
    )
    print(f"the next batch: {growing.batch(_some(random_)):.1f} s")
    _print_memory()
    growing.spark.stop()


def _some(random_: random.Random) -> list[int]:
    return [random_.randrange(KEYS) for _ in range(RECORDS)]


def _print_memory() -> None:
    java, python = memory(os.getpid())
    print(f"memory: JVM {java:,.0f} MiB, Python {python:,.0f} MiB")


def _write(file: Path, keys: Sequence[int]) -> None:
    """Write a record of each key to a file, which becomes one batch."""
    size = len(keys)
    order = pa.array(range(size), pa.int64())
    columns: dict[str, Any] = {
        "q": pa.array([0] * size, pa.int32()),
        "feed": order,
        "topic": ["s"] * size,
        "part": pa.array([0] * size, pa.int32()),
        "off": order,
        "ts": pa.array([0] * size, pa.int64()),
        "key": [b"%d" % key for key in keys],
        "value": [b'{"V":%d}' % key for key in keys],
        "headers": pa.array([[]] * size, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    }
    pq.write_table(pa.table(columns), file)
