"""Records a second from topic to topic: `kestrel run` beside a hand-written PySpark job and beside Quix Streams, on one broker.

    python -m tests.bench kafka          (ROWS=400000 ROUNDS=2 JOBS=filter,count by default, as environment variables)

Every way is a process of its own that reads the same topic and writes a fresh one; they take turns. Kestrel and Quix Streams write exactly
once, Spark's own sink does not. The rate is that of the steady state: from the moment at which a quarter of the outputs are
committed to that at which all are, read from the broker's offsets. Quix Streams gets an environment of its own under build/.
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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from engine.kafka.broker import Broker
from engine.kafka.config import KafkaConfig
from engine.kafka.offsets import BrokerOffsets
from tests.bench.measure import machine
from tests.kafka.helpers import Row, create, environment, produce, start
from tests.kafka.processes import kill

ROWS = int(os.environ.get("ROWS", "400000"))
ROUNDS = int(os.environ.get("ROUNDS", "2"))
JOBS = os.environ.get("JOBS", "filter,count").split(",")
PARTITIONS, BATCH, KEYS = 2, 100_000, 1_000
_SOURCE = "orders"
_FIRST_MS = 1_700_000_000_000
_LONGEST_S = 300.0
_QUIX = "quixstreams==3.23.1"
_PEERS = Path(__file__).parent / "peers"

_DECLARED = f"CREATE STREAM S (ID STRING KEY, CUSTOMER STRING, AMOUNT INT) WITH (KAFKA_TOPIC='{_SOURCE}', VALUE_FORMAT='JSON');\n"
SCRIPTS = {
    "filter": "CREATE STREAM T WITH (KAFKA_TOPIC='{sink}') AS SELECT ID, CUSTOMER, AMOUNT * 2 AS DOUBLED FROM S WHERE AMOUNT >= 10;",
    "count": "CREATE TABLE T WITH (KAFKA_TOPIC='{sink}') AS SELECT ID, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY ID;",
}
GOALS = {("filter", "pyspark"): 0.8, ("filter", "quix"): 1.5, ("count", "quix"): 3.0}
_names = count()

Start = Callable[[str, str, str, Path], "subprocess.Popen[bytes]"]
"""Starts a way of a job (its name, the servers, the sink, a folder of its own)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How many outputs were committed at a moment (s)."""

    moment: float
    records: int


def records() -> Iterator[Row]:
    """The input: a key of 1,000, a customer, an amount below 100; a millisecond apart."""
    for n in range(ROWS):
        yield f"k{n * 7919 % KEYS}", json.dumps({"CUSTOMER": f"customer {n % 5000}", "AMOUNT": n % 100}), _FIRST_MS + n


def outputs(job: str) -> int:
    """How many records a job has to write."""
    return sum(1 for n in range(ROWS) if n % 100 >= 10) if job == "filter" else ROWS


def kestrel(job: str, servers: str, sink: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start Kestrel."""
    script = folder / "app.sql"
    script.write_text(_DECLARED + SCRIPTS[job].format(sink=sink), encoding="utf-8")
    options = ("--property", "auto.offset.reset=earliest", "--batch-records", str(BATCH))
    return start(script, servers, folder / "checkpoint", *options)


def pyspark(job: str, servers: str, sink: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the hand-written job."""
    command = [sys.executable, "-m", "tests.bench.peers.spark_job", servers, _SOURCE, sink, str(folder / "checkpoint"), str(BATCH)]
    return _quiet(command, environment())


def quix(job: str, servers: str, sink: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start Quix Streams."""
    return _quiet([str(quix_python()), str(_PEERS / "quix_job.py"), job, servers, _SOURCE, sink, str(folder)], dict(os.environ))


WAYS: Mapping[str, Mapping[str, Start]] = {
    "filter": {"kestrel": kestrel, "pyspark": pyspark, "quix": quix},
    "count": {"kestrel": kestrel, "quix": quix},
}


def quix_python() -> Path:
    """The Python of an environment that has Quix Streams, made when it is not there: it needs an older client of Kafka than ours."""
    folder = Path(__file__).parents[2] / "build" / "quix"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if subprocess.run([str(python), "-c", "import quixstreams"], capture_output=True, check=False).returncode:
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", _QUIX], check=True)
    return python


def _quiet(command: list[str], settings: dict[str, str]) -> subprocess.Popen[bytes]:
    with Path(os.devnull).open("wb") as nowhere:
        return subprocess.Popen(command, env=settings, stdout=nowhere, stderr=nowhere)


def rate(way: Start, job: str, servers: str, folder: Path) -> float:
    """Outputs a second of one run, in its steady state."""
    sink = f"sink{next(_names)}"
    create(servers, PARTITIONS, sink)
    own = folder / sink
    own.mkdir()
    process = way(job, servers, sink, own)
    try:
        quarter, end = _watched(BrokerOffsets(KafkaConfig(servers=servers)), sink, outputs(job), process)
    finally:
        kill(process)
        shutil.rmtree(own, ignore_errors=True)
    return (end.records - quarter.records) / (end.moment - quarter.moment)


def _watched(offsets: BrokerOffsets, sink: str, expected: int, process: subprocess.Popen[bytes]) -> tuple[Seen, Seen]:
    """When a quarter and when all of the outputs were committed; marks of transactions count as records, but are few."""
    positions = [(sink, number) for number in range(PARTITIONS)]
    deadline = time.monotonic() + _LONGEST_S
    quarter: Seen | None = None
    while time.monotonic() < deadline and process.poll() is None:
        now = Seen(time.monotonic(), sum(offsets.ends(positions).values()))
        if quarter is None and now.records >= expected / 4:
            quarter = now
        if quarter is not None and now.records >= expected:
            return quarter, now
        time.sleep(0.02)
    raise RuntimeError(f"{sink} has {sum(offsets.ends(positions).values())} of {expected} records, and there is no more to come")


def compared(job: str, servers: str, folder: Path) -> None:
    """Measure the ways of a job in turn, and print."""
    rates: dict[str, list[float]] = {name: [] for name in WAYS[job]}
    for _ in range(ROUNDS):
        for name, way in WAYS[job].items():
            rates[name].append(rate(way, job, servers, folder))
    for name, each in rates.items():
        shown = f"  {job:6} {name:8} {statistics.median(each):9,.0f} outputs a second"
        if (job, name) in GOALS:
            ratio = statistics.median(a / b for a, b in zip(rates["kestrel"], each, strict=True))
            shown += f"   kestrel is {ratio:.2f} times as fast (asked: {GOALS[job, name]})"
        print(shown, flush=True)


def main() -> None:
    """Measure and print."""
    quix_python()
    with Broker.start() as broker, tempfile.TemporaryDirectory() as folder:
        create(broker.address, PARTITIONS, _SOURCE)
        produce(broker.address, _SOURCE, records())
        print(f"{ROWS:,} records of JSON in {PARTITIONS} partitions, {BATCH:,} a batch, {machine()}, median of {ROUNDS} rounds")
        for job in JOBS:
            compared(job, broker.address, Path(folder))


if __name__ == "__main__":
    main()
