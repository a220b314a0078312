"""What people run, over typed rows without formats and without a broker, so that a change shows in a minute or two.

    python -m tests.bench shapes       (ROWS=500000 ROUNDS=1 SHAPES="filter count" as environment variables)

PYTHONS names the Python of several environments, separated by spaces. Each keeps a process, and they take turns at
each shape, which compares two versions of Kestrel fairly. Rows are read from files in micro-batches, state is in
Spark's checkpointed store, and outputs are counted and discarded. The first round of a shape is not counted.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kestrel_sql.spark.pipeline.pipeline import Pipeline
from tests.bench.changelog import BATCHES, between, decoded, drained, opened, planned, stream, write_rows
from tests.bench.measure import machine, processor_seconds
from tests.bench.tables import write_table

ROWS = int(os.environ.get("ROWS", "500000"))
ROUNDS = int(os.environ.get("ROUNDS", "1"))
PYTHONS = os.environ.get("PYTHONS", sys.executable).split()
_OF_SEVERAL = ["Python"] if len(PYTHONS) > 1 else []
KEYS = 1_000
PARTITIONS = 2

_SOURCES = "CREATE {} A ({}, V BIGINT, F BIGINT) WITH ({}); CREATE {} B ({}, V BIGINT, F BIGINT) WITH ({});"
_WITH = f"KAFKA_TOPIC='{{}}', VALUE_FORMAT='JSON', PARTITIONS={PARTITIONS}"
_KEY = {"STREAM": "K BIGINT KEY", "TABLE": "K BIGINT PRIMARY KEY"}
_COUNT = "CREATE TABLE C AS SELECT K, COUNT(*) AS N, SUM(V) AS TOTAL FROM A {} GROUP BY K {};"
_JOIN = "AS SELECT A.K AS K, A.V AS V, B.V AS W FROM A {} JOIN B {} ON {} = B.K;"

SHAPES: Mapping[str, tuple[str, str, str, str]] = {
    "filter": ("STREAM", "STREAM", "CREATE STREAM C AS SELECT K, V * 2 AS W FROM A WHERE V >= 10;", "0"),
    "count": ("STREAM", "STREAM", _COUNT.format("", ""), "0"),
    "tumbling": ("STREAM", "STREAM", _COUNT.format("WINDOW TUMBLING (SIZE 10 SECONDS)", ""), "0"),
    "hopping": ("STREAM", "STREAM", _COUNT.format("WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS)", ""), "0"),
    "session": ("STREAM", "STREAM", _COUNT.format("WINDOW SESSION (1 SECONDS)", ""), "0"),
    "final": (
        "STREAM",
        "STREAM",
        _COUNT.format("WINDOW TUMBLING (SIZE 2 SECONDS, GRACE PERIOD 1 SECONDS)", "EMIT FINAL"),
        "0",
    ),
    "table-count": (
        "TABLE",
        "STREAM",
        "CREATE TABLE C AS SELECT F, COUNT(*) AS N, SUM(V) AS T FROM A GROUP BY F;",
        "0",
    ),
    "stream-table": (
        "STREAM",
        "TABLE",
        "CREATE STREAM C " + _JOIN.format("LEFT", "", "A.K"),
        "IF(ordinal % 5 = 0, 1, 0)",
    ),
    "table-table": ("TABLE", "TABLE", "CREATE TABLE C " + _JOIN.format("LEFT", "", "A.K"), "ordinal % 2"),
    "stream-stream": (
        "STREAM",
        "STREAM",
        "CREATE STREAM C " + _JOIN.format("", "WITHIN 1 SECONDS GRACE PERIOD 1 SECONDS", "A.K"),
        "ordinal % 2",
    ),
    "foreign-key": ("TABLE", "TABLE", "CREATE TABLE C " + _JOIN.format("", "", "A.F"), "IF(ordinal % 20 = 0, 1, 0)"),
}
"""For each shape the kinds of A and B, the query, and which of both a row belongs to (0 or 1, in Spark SQL)."""

WANTED = os.environ.get("SHAPES", " ".join(SHAPES)).split()


def main() -> None:
    """Measure and print."""
    print(
        f"  {ROWS:,} rows, {KEYS:,} keys, {BATCHES} micro-batches; {machine()}; {ROUNDS} rounds, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory(prefix="kestrel-bench-") as folder:
        rows_in(Path(folder))
        runs = [_Run(python, folder) for python in PYTHONS]
        for name in WANTED:
            for turn in range(1 + ROUNDS):
                for run in runs:
                    run.take(name, counted=turn > 0)
        for run in runs:
            run.close()
        rows = [run.row(name) for name in WANTED for run in runs]
    write_table(
        "shapes", ["Shape", *_OF_SEVERAL, "Rows a second", "Outputs", "Processor seconds for 100,000 outputs"], rows
    )


def rows_in(folder: Path) -> None:
    """Write the rows of all shapes into a folder."""
    random = np.random.default_rng(7)
    columns = {name: random.integers(0, most, ROWS) for name, most in {"K": KEYS, "V": 100, "F": KEYS // 10}.items()}
    given = folder / "in"
    given.mkdir()
    write_rows(given, {**columns, "TS": np.arange(ROWS) + random.integers(0, 500, ROWS)})


class _Run:
    """A process of one Python, which runs the shapes that it is told."""

    def __init__(self, python: str, folder: str) -> None:
        self._python = python
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `close` closes it
        self._process = subprocess.Popen(
            [python, "-m", "tests.bench.shapes", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._found: dict[str, list[tuple[float, float, int]]] = {}

    def take(self, name: str, *, counted: bool) -> None:
        """Run one shape."""
        assert self._process.stdin
        assert self._process.stdout
        before = processor_seconds(self._process.pid)
        print(name, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("{"):
                break
        else:
            self._errors.seek(0)
            raise SystemExit(f"{self._python} ended at {name}: {self._errors.read()[-2000:]}")
        result = json.loads(line)
        processor = processor_seconds(self._process.pid) - before
        if counted:
            self._found.setdefault(name, []).append((result["seconds"], processor, result["outputs"]))

    def row(self, name: str) -> list[str]:
        """The medians of a shape."""
        seconds, processor, outputs = (statistics.median(values) for values in zip(*self._found[name], strict=True))
        cells = [f"{ROWS / seconds:,.0f}", f"{outputs:,.0f}", f"{processor / outputs * 100_000:.2f}"]
        return [name, *(self._python for _ in _OF_SEVERAL), *cells]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()
        self._errors.close()


def statements(name: str) -> str:
    """The statements of a shape."""
    left, right, query, _ = SHAPES[name]
    sources = _SOURCES.format(left, _KEY[left], _WITH.format("a"), right, _KEY[right], _WITH.format("b"))
    return f"{sources} {query}"


def drain(spark: SparkSession, given: Path, pipeline: Pipeline, side: str) -> int:
    """Run the rows through a pipeline; returns the number of outputs."""
    relations = [source.relation.number for source in pipeline.graph.sources]
    values = {"ROWTIME": "TS", "ROWPARTITION": "0", "ROWOFFSET": "ordinal", "K": "K", "V": "V", "F": "F"}
    relation = f"element_at(array({', '.join(map(str, relations))}), 1 + CAST({side} AS INT))"
    rows = decoded(stream(spark, given), pipeline, values, relation, f"K % {PARTITIONS}")
    outputs = between(spark, rows, pipeline, PARTITIONS).where("rel >= 0").observe("made", F.count("*").alias("n"))
    progress = drained(outputs, given.parent)
    return sum(each.observedMetrics["made"]["n"] for each in progress if "made" in each.observedMetrics)


def serve(folder: Path) -> None:
    """Run each shape that standard input names, and print its seconds and outputs as JSON."""
    given = folder / "in"
    work = Path(tempfile.mkdtemp(dir=folder))
    (work / "in").symlink_to(given)
    spark = opened()
    for name in map(str.strip, sys.stdin):
        pipeline = planned(statements(name))
        started = time.perf_counter()
        outputs = drain(spark, work / "in", pipeline, SHAPES[name][3])
        print(json.dumps({"seconds": time.perf_counter() - started, "outputs": outputs}), flush=True)
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
