"""How long a record takes from its producer to a reader of committed outputs, at a steady rate.

    python -m tests.bench kafka_latency      (SECONDS=30 WARM=30 RATE=1000 ROUNDS=1 JOBS=filter,count by default)

Kestrel and Kafka Streams, which commits each 100 ms as it does by default, take turns on one broker. An output has the
timestamp of the record that caused it, which is the moment when it was produced. The first WARM seconds do not count.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer, Producer

from kestrel_sql.kafka.broker.broker import Broker
from tests.bench.kafka import ROUNDS, WANTED, WAYS, kestrel, streams, streams_built
from tests.bench.kafka_jobs import JOBS, records
from tests.bench.measure import machine, processor_seconds
from tests.bench.tables import write_table
from tests.kafka.helpers import create
from tests.kafka.processes import kill

RATE = int(os.environ.get("RATE", "1000"))
SECONDS, WARM = (float(os.environ.get(name, "30")) for name in ("SECONDS", "WARM"))
PARTITIONS, _TICK_S, _START_S = 2, 0.01, 120.0
_JOBS = [job for job in WANTED if job in ("filter", "count")]
_FEWEST = 2
_names = count()


def latencies(way: str, job: str, servers: str, folder: Path) -> tuple[list[float], float]:
    """Return how long each output took (ms), and how many cores were in use meanwhile."""
    sink = f"latency{next(_names)}"
    create(servers, PARTITIONS, sink)
    own, ended = folder / sink, Event()
    own.mkdir()
    process = {"kestrel": kestrel, "streams": streams}[way](job, servers, sink, own)
    producer = Thread(target=_produce, args=(servers, JOBS[job].topics[0], ended), daemon=True)
    producer.start()
    try:
        with closing(_reader(servers, sink)) as reader:
            return _measured(process, reader)
    finally:
        ended.set()
        producer.join()
        kill(process)
        shutil.rmtree(own, ignore_errors=True)


def _measured(process: subprocess.Popen[bytes], reader: Any) -> tuple[list[float], float]:
    found: list[float] = []
    deadline = time.monotonic() + _START_S
    while not reader.consume(1, 0.1):
        if time.monotonic() > deadline or process.poll() is not None:
            raise RuntimeError("no output has come")
    begin = time.monotonic() + WARM
    worked = 0.0
    while (now := time.monotonic()) < begin + SECONDS:
        messages = reader.consume(1000, 0.01)
        if now >= begin:
            worked = worked or processor_seconds(process.pid)
            arrived = time.time() * 1000
            found += [arrived - message.timestamp()[1] for message in messages]
    if len(found) < _FEWEST:
        raise RuntimeError(f"only {len(found)} outputs have come: let it warm up for longer")
    return found, (processor_seconds(process.pid) - worked) / SECONDS


def _produce(servers: str, topic: str, ended: Event) -> None:
    """Produce records at the rate, each with the moment as its timestamp."""
    # Keys lie where Java's producers put them, or else a count would not write in the tasks that compute it (ADR 53).
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, "partitioner": "murmur2_random"})
    rows = _rows(topic)
    begun, sent = time.monotonic(), 0
    while not ended.is_set():
        while sent < (time.monotonic() - begun) * RATE:
            key, value = next(rows)
            producer.produce(topic, value, key, timestamp=int(time.time() * 1000))
            sent += 1
        producer.poll(0)
        ended.wait(_TICK_S)
    producer.flush()


def _rows(topic: str) -> Iterator[tuple[Any, Any]]:
    while True:
        yield from ((key, value) for key, value, _ in records(topic, 100_000))


def _reader(servers: str, topic: str) -> Any:
    settings = {"group.id": "latency", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer: Any = Consumer({"bootstrap.servers": servers, **settings, "fetch.wait.max.ms": 5})
    consumer.subscribe([topic])
    return consumer


def main() -> None:
    """Measure and print."""
    os.environ["COMMIT_MS"] = "100"
    ways = [way for way in ("kestrel", "streams") if way in WAYS and (way == "kestrel" or streams_built())]
    rows = []
    with Broker.start() as broker, tempfile.TemporaryDirectory() as folder:
        print(f"{RATE:,} records a second for {SECONDS:.0f} s, {machine()}, median of {ROUNDS} rounds")
        for topic in {JOBS[job].topics[0] for job in _JOBS}:
            create(broker.address, PARTITIONS, topic)
        for job in _JOBS:
            found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
            for _ in range(ROUNDS):
                for way in ways:
                    taken, cores = latencies(way, job, broker.address, Path(folder))
                    parts = statistics.quantiles(taken, n=100)
                    found[way].append((parts[49], parts[98], cores))
            for way, rounds in found.items():
                half, most, cores = (statistics.median(each) for each in zip(*rounds, strict=True))
                rows.append([job, way, f"{half:.0f} ms", f"{most:.0f} ms", f"{cores:.2f}"])
    write_table("kafka-latency", ["Job", "Way", "p50", "p99", "Cores in use"], rows)


if __name__ == "__main__":
    main()
