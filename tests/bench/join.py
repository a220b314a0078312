"""An interval join of two streams against Spark's own stream-stream join.

    python -m tests.bench join            (ROWS=300000 a side, ROUNDS=3 by default, as environment variables)

Both join the same typed rows of 10,000 keys within a second, read from files in micro-batches, and keep their state in
Spark's checkpointed store. No format takes part. Watermarks of the same width bound Spark's state. The floor passes the
rows to a stateful processor in Python that does nothing; a row is joined with one other on average.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path

import numpy as np
from pyspark.sql import functions as F

from tests.bench.changelog import (
    BATCHES,
    between,
    decoded,
    drained,
    opened,
    planned,
    reached_or_missed,
    stream,
    write_rows,
)
from tests.bench.measure import interleaved, machine, median_ratio
from tests.bench.peers.floor import echoed
from tests.bench.tables import write_table

ROWS = int(os.environ.get("ROWS", "300000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
KEYS = 10_000
PARTITIONS = 2

STATEMENTS = f"""
CREATE STREAM A (K BIGINT KEY, V BIGINT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON', PARTITIONS={PARTITIONS});
CREATE STREAM B (K BIGINT KEY, V BIGINT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON', PARTITIONS={PARTITIONS});
CREATE STREAM C AS SELECT A.K AS K, A.V AS V, B.V AS W FROM A JOIN B WITHIN 20 SECONDS GRACE PERIOD 1 SECOND ON A.K = B.K;
"""
VALUES = {"V": "V", "ROWTIME": "TS", "ROWPARTITION": "0", "ROWOFFSET": "ordinal", "K": "K"}


def main() -> None:
    """Measure and print."""
    spark = opened()
    folder = Path(tempfile.mkdtemp(prefix="kestrel-bench-"))
    random = np.random.default_rng(7)
    total = 2 * ROWS
    columns = {
        "K": random.integers(0, KEYS, total),
        "V": random.integers(0, 100, total),
        "TS": np.arange(total) + random.integers(0, 500, total),
        "SIDE": np.arange(total) % 2,
    }
    given = folder / "in"
    given.mkdir()
    write_rows(given, columns)
    pipeline = planned(STATEMENTS)

    def ours() -> None:
        relations = [source.relation.number for source in pipeline.graph.sources]
        rows = decoded(
            stream(spark, given),
            pipeline,
            VALUES,
            f"CASE SIDE WHEN 0 THEN {relations[0]} ELSE {relations[1]} END",
            f"K % {PARTITIONS}",
        )
        drained(between(spark, rows, pipeline, PARTITIONS), folder)

    def native() -> None:
        sides = []
        for side in (0, 1):
            rows = stream(spark, given).where(F.col("SIDE") == side).withColumn("T", F.timestamp_millis("TS"))
            sides.append(rows.withWatermark("T", "1 second").alias("ab"[side]))
        near = F.expr("a.K = b.K AND b.T BETWEEN a.T - INTERVAL 20 SECONDS AND a.T + INTERVAL 20 SECONDS")
        drained(sides[0].join(sides[1], near).select("a.K", "a.V", F.col("b.V").alias("W")), folder, "append")

    def floor() -> None:
        drained(echoed(stream(spark, given), "K", "V"), folder)

    print(f"2 x {ROWS:,} rows, {KEYS:,} keys, {BATCHES} micro-batches, {machine()}, median of {ROUNDS} rounds")
    seconds = interleaved({"native": native, "ours": ours, "floor": floor}, ROUNDS)
    shutil.rmtree(folder, ignore_errors=True)
    spark.stop()
    rates = (total / statistics.median(seconds[name]) for name in ("ours", "native", "floor"))
    ratio, floors = (1 / median_ratio(seconds, name, "native") for name in ("ours", "floor"))
    row = [*(f"{rate:,.0f}" for rate in rates), f"{ratio:.2f}", reached_or_missed(ratio, 3, floors)]
    write_table("join", ["Kestrel, rows a second", "Spark's own join", "Floor", "Ratio", "Goal"], [row])
