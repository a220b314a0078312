"""Memory of `kestrel run`: driver, JVM and workers after each of many micro-batches from a broker.

    python -m tests.bench kafka_memory         (ROWS=2000 a batch, BATCHES=100 by default, as environment variables)

Two queries run: a filter, and a count with one result per record over 1,000 keys. Prints the median of each ten
batches, for the JVM and for all Python processes, and the ratio of the last ten to the third ten, when every key is
known. It takes medians because a process that has just forked shares its pages, which a sum counts twice.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from kestrel_sql.kafka.broker.broker import Broker
from tests.bench.measure import descendants, machine
from tests.bench.memory import own_mebibytes
from tests.kafka.helpers import create, produce, start
from tests.kafka.processes import kill

ROWS = int(os.environ.get("ROWS", "2000"))
_TENTH = 10
BATCHES = max(3 * _TENTH, int(os.environ.get("BATCHES", "100")) // _TENTH * _TENTH)
_SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM F WITH (KAFKA_TOPIC='f') AS SELECT * FROM S WHERE V % 2 = 0;
CREATE TABLE C WITH (KAFKA_TOPIC='c') AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;
"""


def last_batch(checkpoint: Path) -> int:
    """Return the number of the last finished batch of the count."""
    return max(
        (int(entry.name) for entry in checkpoint.glob("queries/CTAS_C_*/commits/[0-9]*") if entry.name.isdigit()),
        default=-1,
    )


def memory(process: int) -> tuple[float, float]:
    """Return the MiB of the JVMs and of all other processes, for a process and its descendants."""
    java = python = 0.0
    for each in descendants(process):
        try:
            is_java = Path(f"/proc/{each}/comm").read_text().startswith("java")
        except OSError:  # It has ended meanwhile.
            continue
        java, python = (java + own_mebibytes(each), python) if is_java else (java, python + own_mebibytes(each))
    return java, python


def main() -> None:
    """Measure and print."""
    folder = Path(tempfile.mkdtemp(prefix="kestrel-bench-"))
    (folder / "app.sql").write_text(_SCRIPT, encoding="utf-8")
    moment = int(time.time() * 1000)
    with Broker.start() as broker:
        create(broker.address, 2, "s")
        produce(
            broker.address,
            "s",
            ((f"k{at % 1000}", f'{{"V": {at}}}', moment + at) for at in range((BATCHES + 20) * ROWS)),
        )
        options = (
            "--batch-records",
            str(ROWS),
            "--property",
            "auto.offset.reset=earliest",
            "--spark-conf",
            "spark.driver.memory=1g",
        )
        print(f"{BATCHES} batches of {ROWS:,} records for each of two queries, {machine()}")
        process = start(folder / "app.sql", broker.address, folder / "checkpoint", *options, log=folder / "log")
        seen: list[list[tuple[float, float]]] = [[] for _ in range(BATCHES)]
        try:
            while (batch := last_batch(folder / "checkpoint")) < BATCHES - 1:
                if process.poll() is not None:
                    raise SystemExit((folder / "log").read_text(encoding="utf-8"))
                if batch >= 0:
                    seen[batch].append(memory(process.pid))
                time.sleep(0.2)
        finally:
            kill(process)
    tenths = [[each for batch in seen[at : at + _TENTH] for each in batch] for at in range(0, BATCHES, _TENTH)]
    medians = [tuple(statistics.median(column) for column in zip(*tenth, strict=True)) for tenth in tenths]
    for number, (java, python) in enumerate(medians):
        print(
            f"batches {number * _TENTH:3} to {number * _TENTH + _TENTH - 1:3}: {java:7.0f} MiB JVM, {python:7.0f} MiB"
            " Python"
        )
    print(f"the last ten batches take {sum(medians[-1]) / sum(medians[2]):.2f} times the memory of the third ten")
