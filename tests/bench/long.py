"""A long run: memory, open files, threads, files and bytes of the checkpoint, and the time of batches, as they go on.

    MINUTES=240 RATE=400 python -m tests.bench long

An application of five queries (filter, count, table, windowed count, session) reads `RATE` records a second from two
topics. Every ten seconds a line of JSON goes to `build/long.jsonl`. At the end each figure is compared between the
second and the last quarter of the run, because Spark keeps a hundred batches and the JVM grows into its heap.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from threading import Event, Thread
from typing import Any

from confluent_kafka import Producer

from kestrel_sql.kafka.broker.broker import Broker
from tests.bench.kafka_memory import memory
from tests.bench.measure import descendants, machine
from tests.kafka.helpers import create, start
from tests.kafka.processes import ending

MINUTES, RATE = float(os.environ.get("MINUTES", "240")), int(os.environ.get("RATE", "400"))
_SAMPLE_S, _KEYS, _PARTITIONS = 10.0, 1000, 2
_FOLDER = Path("build")
_SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE R (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON');
CREATE STREAM F WITH (KAFKA_TOPIC='f') AS SELECT * FROM S WHERE V % 2 = 0;
CREATE TABLE C WITH (KAFKA_TOPIC='c') AS SELECT K, COUNT(*) AS N, SUM(V) AS X FROM S GROUP BY K;
CREATE STREAM J WITH (KAFKA_TOPIC='j') AS SELECT S.K AS K, S.V AS V, R.V AS W FROM S JOIN R ON S.K = R.K;
CREATE TABLE W WITH (KAFKA_TOPIC='w') AS SELECT K, COUNT(*) AS N FROM S
  WINDOW TUMBLING (SIZE 5 SECONDS, RETENTION 60 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY K;
CREATE TABLE X WITH (KAFKA_TOPIC='x') AS SELECT K, COUNT(*) AS N FROM S
  WINDOW SESSION (1 SECONDS, RETENTION 60 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY K;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a moment looks like: memory in MiB, numbers of things, bytes, records and state rows of all queries."""

    seconds: float
    java: float
    python: float
    files: int
    threads: int
    checkpoint_files: int
    checkpoint_bytes: int
    state_rows: int
    lag: int


def main() -> None:
    """Run, sample, and print the comparison."""
    folder = Path(tempfile.mkdtemp(prefix="kestrel-bench-"))
    (folder / "app.sql").write_text(_SCRIPT, encoding="utf-8")
    stop = Event()
    with Broker.start() as broker:
        create(broker.address, _PARTITIONS, "s", "r")
        feeding = Thread(target=_feed, args=(broker.address, stop), daemon=True)
        options = ("--batch-records", "20000", "--json-progress", str(folder / "progress"))
        options = (*options, "--spark-conf", "spark.driver.memory=1g", "--property", "auto.offset.reset=earliest")
        print(f"{MINUTES:.0f} minutes with {RATE} records a second, {machine()}")
        with ending(start(folder / "app.sql", broker.address, folder / "c", *options, log=folder / "log")) as process:
            feeding.start()
            try:
                samples, batches = _watch(process.pid, folder, lambda: process.poll() is None)
            finally:
                stop.set()
                feeding.join()
    _judge(samples, batches)


def _feed(servers: str, stop: Event) -> None:
    """Write records of now, a part of a second at a time, until it is to stop."""
    producer, random_, step = Producer({"bootstrap.servers": servers, "linger.ms": 5}), random.Random(7), 0.25
    next_ = time.monotonic()
    while not stop.wait(max(0.0, next_ - time.monotonic())):
        next_ += step
        now = int(time.time() * 1000)
        for topic, share in (("s", 9), ("r", 1)):
            for at in range(max(1, int(RATE * step * share / 10))):
                key = f"k{random_.randrange(_KEYS)}"
                producer.produce(topic, key=key, value=f'{{"V": {at}}}', timestamp=now)
        producer.poll(0)
    producer.flush(30)


def _watch(process: int, folder: Path, alive: Callable[[], bool]) -> tuple[list[Sample], list[float]]:
    began, samples = time.monotonic(), []
    durations: dict[tuple[str, int], float] = {}
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / "long.jsonl").open("w", encoding="utf-8") as out:
        while (now := time.monotonic() - began) < MINUTES * 60:
            if not alive():
                raise SystemExit((folder / "log").read_text(encoding="utf-8"))
            durations.update(_durations(folder / "c"))
            samples.append(_sample(process, folder, now))
            out.write(json.dumps({**asdict(samples[-1]), "batches": len(durations)}) + "\n")
            out.flush()
            time.sleep(_SAMPLE_S)
    return samples, [durations[key] for key in sorted(durations, key=lambda key: key[1])]


def _sample(process: int, folder: Path, seconds: float) -> Sample:
    java, python = memory(process)
    found = [path for path in (folder / "c").rglob("*") if not path.is_dir()]
    states = _progress(folder / "progress")
    return Sample(
        seconds=round(seconds, 1),
        java=round(java, 1),
        python=round(python, 1),
        files=sum(_entries(each, "fd") for each in descendants(process)),
        threads=sum(_entries(each, "task") for each in descendants(process)),
        checkpoint_files=len(found),
        checkpoint_bytes=sum(map(_size, found)),
        state_rows=sum(state["state_rows"] or 0 for state in states.values()),
        lag=sum(sum((state["lag"] or {}).values()) for state in states.values()),
    )


def _entries(process: int, name: str) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{process}/{name}"))
    return 0


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _progress(file: Path) -> Mapping[str, Mapping[str, Any]]:
    """The last line of each query, from the end of the file."""
    if not file.exists():
        return {}
    with file.open("rb") as lines:
        lines.seek(max(0, file.stat().st_size - 20_000))
        tail = lines.read().decode("utf-8").split("\n")[1:-1]
    return {state["query"]: state for state in map(json.loads, tail)}


def _durations(checkpoint: Path) -> dict[tuple[str, int], float]:
    """The seconds from the offsets of a batch to its commit, by query and batch."""
    found = {}
    for commit in checkpoint.glob("queries/*/commits/[0-9]*"):
        with suppress(OSError):
            query = commit.parent.parent
            begun = (query / "offsets" / commit.name).stat().st_mtime
            found[query.name, int(commit.name)] = commit.stat().st_mtime - begun
    return found


def _judge(samples: Sequence[Sample], batches: Sequence[float]) -> None:
    quarter = len(samples) // 4
    for field in fields(Sample):
        before, after = (
            statistics.median(getattr(sample, field.name) for sample in part)
            for part in (samples[quarter : 2 * quarter], samples[-quarter:])
        )
        if field.name != "seconds":
            print(f"{field.name}: {before:,.0f} in the second quarter, {after:,.0f} in the last")
    rest = batches[len(batches) // 10 :]
    median = statistics.median(rest)
    print(
        f"{len(batches)} batches; without the first tenth: median {median:.2f} s, the slowest {max(rest):.2f} s"
        f" ({max(rest) / median:.1f} times)"
    )
