"""Memory of one query: Spark and its Python workers after each of its micro-batches.

    python -m tests.bench memory               (ROWS=1000000 BATCHES=50 by default, as environment variables)

The query is that of the benchmark `changelog`: one result per record, over 1,000 keys. Prints the peak of each ten
batches, and the ratio of the last ten to the second ten, when every key is known and the JVM has its full heap.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.bench.changelog import FILES, ROWS, STATEMENTS, between, decoded, opened, planned, stream, write_rows
from tests.bench.measure import descendants, machine

BATCHES = int(os.environ.get("BATCHES", "50"))
_TENTH = 10


def mebibytes(process: int) -> float:
    """Return the memory (MiB) of a process and its descendants; shared pages count once."""
    return sum(map(own_mebibytes, descendants(process)))


def own_mebibytes(process: int) -> float:
    """Return the memory (MiB) of one process with its part of shared pages; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main() -> None:
    """Measure and print."""
    folder = Path(tempfile.mkdtemp(prefix="kestrel-bench-"))
    random = np.random.default_rng(7)
    given = folder / "in"
    given.mkdir()
    write_rows(
        given,
        {"K": random.integers(0, 1_000, ROWS), "V": random.integers(0, 100, ROWS), "TS": np.arange(ROWS)},
        BATCHES,
    )
    spark = opened()
    pipeline = planned(STATEMENTS)
    values = {"V": "V", "ROWTIME": "TS", "ROWPARTITION": "0", "ROWOFFSET": "ordinal", "K": "K"}
    frame = between(spark, decoded(stream(spark, given), pipeline, values), pipeline)
    print(f"{ROWS:,} rows in {BATCHES} micro-batches of {FILES} files, {machine()}")
    writer = (
        frame.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(folder / "checkpoint"))
    )
    query = writer.trigger(availableNow=True).start()
    peaks = [0.0] * BATCHES
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    while query.isActive:
        last = query.lastProgress
        batch = min(last["batchId"] + 1 if last else 0, BATCHES - 1)
        peaks[batch] = max(peaks[batch], mebibytes(jvm))
        time.sleep(0.1)
    query.awaitTermination()
    tens = [max(peaks[at : at + _TENTH]) for at in range(0, BATCHES, _TENTH)]
    for number, peak in enumerate(tens):
        print(f"  batches {number * _TENTH:2} to {number * _TENTH + _TENTH - 1:2}  peak {peak:6,.0f} MiB")
    print(f"  the last ten take {tens[-1] / tens[1]:.2f} of what the second ten took")
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)
