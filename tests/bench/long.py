"""A long run: memory, open files, threads, files and bytes of the checkpoint, and the time of batches, as they go on.

    MINUTES=240 RATE=400 python -m tests.bench long           (the checkpoint in a folder)
    STORE=s3 MINUTES=240 RATE=400 EVERY=15 python -m tests.bench long

An application of five queries (filter, count, join, windowed count, session) reads `RATE` records a second from two
topics, which come every `EVERY` seconds. A query begins a batch whenever there are records, so `EVERY` decides how much
of the machine the run takes. `STORE` is the kind of store of the checkpoint: `s3` or `hdfs`. Every ten seconds a line of
JSON goes to `build/long.jsonl`. At the end each figure is compared between the second and the last quarter of the run,
because Spark keeps a hundred batches and the JVM grows into its heap. With `KEEP` Spark keeps fewer batches, so that a
shorter run shows whether it deletes them.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from threading import Event, Thread
from typing import Any

from confluent_kafka import Producer

from kestrel_sql.kafka.broker.broker import Broker
from kestrel_sql.kafka.connector.store import open_store_alone
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, StorePath
from tests.bench.kafka_memory import memory
from tests.bench.measure import descendants, machine
from tests.kafka.helpers import create, spark_options, start
from tests.kafka.processes import ending
from tests.kafka.stores import store_of

MINUTES, RATE = float(os.environ.get("MINUTES", "240")), int(os.environ.get("RATE", "400"))
EVERY, STORE = float(os.environ.get("EVERY", "0.25")), os.environ.get("STORE", "")
KEEP = int(os.environ.get("KEEP", "100"))
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
    """What a moment looks like: memory in MiB, numbers of things, bytes, records and state rows of all queries.

    On a store `checkpoint_files` are objects.
    """

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
    with Broker.start() as broker, _checkpoint(folder) as (checkpoint, settings):
        create(broker.address, _PARTITIONS, "s", "r")
        feeding = Thread(target=_feed, args=(broker.address, stop), daemon=True)
        options = ("--batch-records", "20000", "--json-progress", str(folder / "progress"))
        settings = {"spark.driver.memory": "1g", "spark.sql.streaming.minBatchesToRetain": str(KEEP), **settings}
        options = (*options, *spark_options(settings), "--property", "auto.offset.reset=earliest")
        print(
            f"{MINUTES:.0f} minutes with {RATE} records a second, every {EVERY:g} s, {KEEP} batches kept, {machine()}"
        )
        script, log = folder / "app.sql", folder / "log"
        with ending(start(script, broker.address, str(checkpoint), *options, log=log)) as process:
            feeding.start()
            try:
                samples, batches = _watch(process.pid, folder, checkpoint, lambda: process.poll() is None)
            finally:
                stop.set()
                feeding.join()
    _judge(samples, batches)


@contextmanager
def _checkpoint(folder: Path) -> Iterator[tuple[CheckpointPath, Mapping[str, str]]]:
    """Where the checkpoint is to be, and the settings of Spark that reach it."""
    if not STORE:
        yield folder / "c", {}
        return
    with store_of(STORE, folder) as way, open_store_alone(f"{way.uri}/c", way.settings) as root:
        yield root, way.settings


def _feed(servers: str, stop: Event) -> None:
    """Write records of now, those of `EVERY` seconds at a time, until it is to stop."""
    producer, random_ = Producer({"bootstrap.servers": servers, "linger.ms": 5}), random.Random(7)
    next_ = time.monotonic()
    while not stop.wait(max(0.0, next_ - time.monotonic())):
        next_ += EVERY
        now = int(time.time() * 1000)
        for topic, share in (("s", 9), ("r", 1)):
            for at in range(max(1, int(RATE * EVERY * share / 10))):
                key = f"k{random_.randrange(_KEYS)}"
                producer.produce(topic, key=key, value=f'{{"V": {at}}}', timestamp=now)
        producer.poll(0)
    producer.flush(30)


def _watch(
    process: int, folder: Path, checkpoint: CheckpointPath, alive: Callable[[], bool]
) -> tuple[list[Sample], list[float]]:
    began, samples, progress = time.monotonic(), [], _Progress(folder / "progress")
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / "long.jsonl").open("w", encoding="utf-8") as out:
        while (now := time.monotonic() - began) < MINUTES * 60:
            if not alive():
                raise SystemExit((folder / "log").read_text(encoding="utf-8"))
            progress.look()
            samples.append(_sample(process, checkpoint, progress.states, now))
            out.write(json.dumps({**asdict(samples[-1]), "batches": len(progress.durations)}) + "\n")
            out.flush()
            time.sleep(_SAMPLE_S)
    return samples, [progress.durations[key] for key in sorted(progress.durations, key=lambda key: key[1])]


def _sample(
    process: int, checkpoint: CheckpointPath, states: Mapping[str, Mapping[str, Any]], seconds: float
) -> Sample:
    java, python = memory(process)
    number, bytes_ = _contents(checkpoint)
    return Sample(
        seconds=round(seconds, 1),
        java=round(java, 1),
        python=round(python, 1),
        files=sum(_entries(each, "fd") for each in descendants(process)),
        threads=sum(_entries(each, "task") for each in descendants(process)),
        checkpoint_files=number,
        checkpoint_bytes=bytes_,
        state_rows=sum(state["state_rows"] or 0 for state in states.values()),
        lag=sum(sum((state["lag"] or {}).values()) for state in states.values()),
    )


def _contents(checkpoint: CheckpointPath) -> tuple[int, int]:
    """The number of files or objects of a checkpoint, and their bytes."""
    if isinstance(checkpoint, StorePath):
        if not checkpoint.exists():
            return 0, 0
        summary = checkpoint.store.files.getContentSummary(checkpoint.store.path(checkpoint.uri))
        return int(summary.getFileCount()), int(summary.getLength())
    found = [path for path in checkpoint.rglob("*") if not path.is_dir()]
    return len(found), sum(map(_size, found))


def _entries(process: int, name: str) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{process}/{name}"))
    return 0


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


@dataclass(slots=True)
class _Progress:
    """The last state of each query, and the seconds of each batch by query and number, from the progress file."""

    file: Path
    states: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    durations: dict[tuple[str, int], float] = field(default_factory=dict)
    _read: int = 0

    def look(self) -> None:
        """Read what is new."""
        with suppress(FileNotFoundError), self.file.open("rb") as lines:
            lines.seek(self._read)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                state = json.loads(line)
                self.states[state["query"]] = state
                if state["batch_ms"] is not None:
                    self.durations[state["query"], state["batch"]] = state["batch_ms"] / 1000


def _judge(samples: Sequence[Sample], batches: Sequence[float]) -> None:
    quarter = len(samples) // 4
    for name in (each.name for each in fields(Sample)):
        before, after = (
            statistics.median(getattr(sample, name) for sample in part)
            for part in (samples[quarter : 2 * quarter], samples[-quarter:])
        )
        if name != "seconds":
            print(f"{name}: {before:,.0f} in the second quarter, {after:,.0f} in the last")
    if not batches:
        sys.exit("no batch was done: give it more MINUTES")
    rest = batches[len(batches) // 10 :]
    median = statistics.median(rest)
    print(
        f"{len(batches)} batches; without the first tenth: median {median:.2f} s, the slowest {max(rest):.2f} s"
        f" ({max(rest) / median:.1f} times)"
    )
