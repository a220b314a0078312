"""Records a second from topic to topic: `kestrel run`, Kafka Streams, PySpark by hand, and Quix Streams, on one broker.

    python -m tests.bench kafka          (ROWS=400000 WARM=4 ROUNDS=2 BATCH=200000 by default, as environment variables;
                                          JOBS and WAYS choose some, such as JOBS=filter,session WAYS=kestrel,streams)

Each way is a process of its own that reads the same topics and writes a fresh one; they take turns. All but Spark's own
sink write exactly once. `floor` is what a stateful job in PySpark cannot do without: reading, grouping by key, a
processor that does nothing, and writing in transactions. HEAP=2g is the heap of each JVM that runs a job.

The topic holds WARM times ROWS records and ROWS more, because the JVM compiles for more than half a minute. The bench
prints the rate from a quarter of the first ROWS records to all of them, the rate of the last ROWS (the steady state),
and the processor seconds for 100,000 outputs of the last ROWS, which depend less on other work of the machine; for
Kestrel and the floor also by what spent them. Tables of the steady state follow (tests/bench/tables.py). It counts
outputs when they are written, because Quix Streams commits only every five seconds, and waits until all are committed.
Quix Streams gets an environment of its own under build/; Kafka Streams is built there by Maven where there is a JDK.
"""

from __future__ import annotations

import operator
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kestrel_sql.kafka.broker.broker import Broker
from tests.bench.kafka_jobs import JOBS, PROJECTION, records
from tests.bench.measure import ROOT, machine, processor_seconds, seconds_by_owner
from tests.bench.tables import write_table
from tests.kafka.helpers import create, produce, start
from tests.kafka.processes import kill

ROWS = int(os.environ.get("ROWS", "400000"))
WARM = int(os.environ.get("WARM", "4"))
ROUNDS = int(os.environ.get("ROUNDS", "2"))
WANTED = os.environ.get("JOBS", ",".join(job for job in JOBS if job != PROJECTION)).split(",")
WAYS = os.environ.get("WAYS", "kestrel,streams,pyspark,floor,quix").split(",")
WHOLE = (WARM + 1) * ROWS
PARTITIONS, BATCH = 2, int(os.environ.get("BATCH", "200000"))
HEAP = os.environ.get("HEAP", "2g")
TABLE = os.environ.get("TABLE", "kafka")
_LONGEST_S = float(os.environ.get("LONGEST_S", "300"))
_COMMITTED_S = 60.0
_PAUSE_S = 0.06
"""Outputs of a batch are written without a longer pause."""
_LEAST_S = 0.01
"""Outputs that were all there at the first look took no longer than the time between two looks."""
_QUIX = "quixstreams==3.23.1"
_PEERS = Path(__file__).parent / "peers"
_BUILT = ROOT / "build"

_MOST_WORK, _LEAST_RATE = 0.9, 1.0
"""The goals as ratios to Kafka Streams."""
_FLOORS = ("pyspark", "floor")
_TITLES = {
    "kestrel": "Kestrel",
    "streams": "Kafka Streams",
    "pyspark": "PySpark by hand",
    "floor": "Floor",
    "quix": "Quix Streams",
}
_names = count()

Start = Callable[[str, str, str, Path], "subprocess.Popen[bytes]"]
"""Starts a way of a job (its name, the servers, the sink, a folder of its own)."""


class UnfinishedError(Exception):
    """A way ended, or took too long, before it had written all outputs."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The number of outputs at a moment (s), and the processor seconds until then, also by owner."""

    moment: float
    records: int
    worked: float
    owners: Mapping[str, float]

    def rate(self, before: Seen) -> float:
        """Outputs a second since then."""
        return (self.records - before.records) / max(self.moment - before.moment, _LEAST_S)

    def work(self, before: Seen) -> float:
        """Processor seconds for 100,000 outputs since then."""
        return self.share(self.worked - before.worked, before)

    def shares(self, before: Seen) -> Mapping[str, float]:
        """The same by owner."""
        return {name: self.share(spent - before.owners.get(name, 0), before) for name, spent in self.owners.items()}

    def share(self, seconds: float, before: Seen) -> float:
        """Seconds since then for 100,000 outputs."""
        return seconds / (self.records - before.records) * 100_000


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: outputs a second at first and in the steady state, and the latter's processor seconds for 100,000
    outputs, also by owner.
    """

    first: float
    steady: float
    work: float
    owners: Mapping[str, float]


def kestrel(job: str, servers: str, sink: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start Kestrel."""
    script = folder / "app.sql"
    script.write_text(JOBS[job].script.format(sink=sink), encoding="utf-8")
    options = ["--property", "auto.offset.reset=earliest", "--batch-records", str(BATCH)]
    options += ["--spark-conf", f"spark.driver.memory={HEAP}"]
    return start(script, servers, folder / "checkpoint", *options)


def pyspark(job: str, servers: str, sink: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the hand-written job."""
    return _by_hand("filter", job, servers, sink, folder)


def floor(job: str, servers: str, sink: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the job that groups the records of the same topics, and does nothing else."""
    return _by_hand("floor", job, servers, sink, folder)


def _by_hand(kind: str, job: str, servers: str, sink: str, folder: Path) -> subprocess.Popen[bytes]:
    outputs = JOBS[job].outputs(WHOLE) / WHOLE
    sources = ",".join(JOBS[job].topics)
    options = [servers, sources, sink, str(folder / "checkpoint"), str(BATCH), str(outputs)]
    settings = {**os.environ, "HEAP": HEAP}
    return _quiet([sys.executable, "-m", "tests.bench.peers.spark_job", kind, *options], settings)


def quix(job: str, servers: str, sink: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start Quix Streams."""
    return _quiet(
        [str(quix_python()), str(_PEERS / "quix_job.py"), job, servers, *JOBS[job].topics, sink, str(folder)],
        dict(os.environ),
    )


def streams(job: str, servers: str, sink: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start Kafka Streams."""
    path = f"{_BUILT / 'streams' / 'classes'}:{_BUILT / 'streams' / 'lib'}/*"
    return _quiet(["java", f"-Xmx{HEAP}", "-cp", path, "StreamsJob", job, servers, sink, str(folder)], os.environ)


def ways(job: str) -> Mapping[str, Start]:
    """The ways to run a job."""
    found: dict[str, Start] = {"kestrel": kestrel}
    if job == "filter":
        found["pyspark"] = pyspark
    else:
        found["floor"] = floor
    if job in ("filter", "count"):
        found["quix"] = quix
    if streams_built():
        found["streams"] = streams
    return {name: way for name, way in found.items() if name in WAYS}


@cache
def streams_built() -> bool:
    """Build the jobs of Kafka Streams; returns False without Maven and a JDK."""
    if not (shutil.which("mvn") and shutil.which("javac")):
        print("  left out: Kafka Streams needs Maven and a JDK")
        return False
    goals = ["--quiet", "--batch-mode", f"-Dout={_BUILT / 'streams'}", "compile"]
    subprocess.run(["mvn", "--file", str(_PEERS / "streams" / "pom.xml"), *goals], check=True)
    return True


def quix_python() -> Path:
    """Return the Python of an environment with Quix Streams, and create it if missing.

    Quix Streams needs an older Kafka client than ours.
    """
    folder = _BUILT / "quix"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if subprocess.run([str(python), "-c", "import quixstreams"], capture_output=True, check=False).returncode:
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", _QUIX], check=True)
    return python


def _quiet(command: list[str], settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with Path(os.devnull).open("wb") as nowhere:
        return subprocess.Popen(command, env=settings, stdout=nowhere, stderr=nowhere)


def measured(way: Start, job: str, servers: str, folder: Path) -> Measured:
    """Measure one run of a way."""
    sink = f"sink{next(_names)}"
    create(servers, PARTITIONS, sink)
    own = folder / sink
    own.mkdir()
    process = way(job, servers, sink, own)
    made, reached = JOBS[job].outputs, JOBS[job].reached
    marks = [int(made(count) * reached) for count in (ROWS // 4, ROWS, WARM * ROWS, WHOLE)]
    try:
        quarter, first, warm, end = _watched(servers, sink, marks, made(BATCH), process)
        _await_committed(servers, sink, marks[-1])
    finally:
        kill(process)
        shutil.rmtree(own, ignore_errors=True)
    return Measured(first.rate(quarter), end.rate(warm), end.work(warm), end.shares(warm))


def _watched(
    servers: str, sink: str, marks: Sequence[int], most: float, process: subprocess.Popen[bytes]
) -> list[Seen]:
    """Return the moments when the wanted numbers of outputs were written.

    A way that works in batches writes the outputs of a batch, `most` at most, within a part of its time, so that a moment
    amid them would count too many or too few: it is that of the last one before a pause. Transaction markers count too,
    but are few.
    """
    deadline = time.monotonic() + _LONGEST_S
    reached: list[Seen] = []
    found: list[Seen] = []
    written, grown = 0, time.monotonic()
    with closing(_watcher(servers, "read_uncommitted")) as watcher:
        while len(found) < len(marks):
            before, written = written, _end(watcher, sink)
            now = time.monotonic()
            grown = now if written > before else grown
            while len(reached) < len(marks) and written >= marks[len(reached)]:
                reached.append(_seen(process, now, written))
            if len(reached) > len(found) and now > grown + _PAUSE_S:
                last = _seen(process, grown, written)
                found += [last if written - each.records <= most else each for each in reached[len(found) :]]
            if now > deadline or process.poll() is not None:
                raise UnfinishedError(f"{sink} has {written} of {marks[-1]} records, and there is no more to come")
            time.sleep(0.01)
    return found


def _seen(process: subprocess.Popen[bytes], moment: float, written: int) -> Seen:
    return Seen(moment, written, processor_seconds(process.pid), seconds_by_owner(process.pid))


def _await_committed(servers: str, sink: str, expected: int) -> None:
    deadline = time.monotonic() + _COMMITTED_S
    with closing(_watcher(servers, "read_committed")) as watcher:
        while _end(watcher, sink) < expected:
            if time.monotonic() > deadline:
                raise UnfinishedError(f"{sink}: outputs are not committed")
            time.sleep(0.1)


def _watcher(servers: str, isolation: str) -> Any:
    return Consumer({"bootstrap.servers": servers, "group.id": "watcher", "isolation.level": isolation})


def _end(watcher: Any, sink: str) -> int:
    return sum(
        watcher.get_watermark_offsets(TopicPartition(sink, number), timeout=20)[1] for number in range(PARTITIONS)
    )


def compared(job: str, servers: str, folder: Path) -> Mapping[str, Measured]:
    """Measure the ways of a job in turns, and print; returns the medians of the ways that ended in each round."""
    runs: dict[str, list[Measured]] = {name: [] for name in ways(job)}
    load = os.getloadavg()[0]
    for _ in range(ROUNDS):
        for name, way in ways(job).items():
            try:
                runs[name].append(measured(way, job, servers, folder))
            except UnfinishedError as error:
                print(f"  {job:13} {name:8} did not end: {error}", flush=True)
    found = {name: _median(each) for name, each in runs.items() if len(each) == ROUNDS}
    for name, run in found.items():
        print(
            f"  {job:13} {name:8} {run.first:9,.0f} outputs a second at first, {run.steady:9,.0f} then; {run.work:.2f} s of a"
            f" processor for 100,000, load {load:.1f}",
            flush=True,
        )
        if name in ("kestrel", *_FLOORS):
            most = sorted(run.owners.items(), key=lambda owner: -owner[1])
            print(f"    of them {', '.join(f'{spent:.2f} {owner}' for owner, spent in most)}", flush=True)
    return found


def _median(runs: Sequence[Measured]) -> Measured:
    owners = {owner: statistics.median(run.owners.get(owner, 0) for run in runs) for owner in runs[0].owners}
    figures = (each.name for each in fields(Measured) if each.name != "owners")
    return Measured(**{name: statistics.median(getattr(run, name) for run in runs) for name in figures}, owners=owners)


def tabled(found: Mapping[str, Mapping[str, Measured]]) -> None:
    """Write the tables of the steady state: processor seconds, rates, and what Kestrel's seconds were spent on."""
    names = [name for name in _TITLES if any(name in runs for runs in found.values())]
    columns = ["Job", *(_TITLES[name] for name in names), "Ratio to Kafka Streams", "Goal"]
    work, rates = [], []
    for job, runs in found.items():
        seconds = {name: run.work for name, run in runs.items()}
        written = {name: run.steady for name, run in runs.items()}
        work.append([job, *_row(seconds, names, "{:.2f}"), _outcome(seconds, max, _MOST_WORK, operator.le)])
        rates.append([job, *_row(written, names, "{:,.0f}"), _outcome(written, min, _LEAST_RATE, operator.ge)])
    write_table(f"{TABLE}-seconds", columns, work)
    write_table(f"{TABLE}-rates", columns, rates)
    own_runs = {job: runs["kestrel"] for job, runs in found.items() if "kestrel" in runs}
    spent = {job: run.owners for job, run in own_runs.items()}
    owners = sorted(
        {owner for own in spent.values() for owner in own},
        key=lambda owner: -sum(own.get(owner, 0) for own in spent.values()),
    )
    rows = [[owner, *(f"{own.get(owner, 0):.2f}" for own in spent.values())] for owner in owners]
    rows.append(["cores in use", *(f"{run.steady * run.work / 100_000:.2f}" for run in own_runs.values())])
    write_table(f"{TABLE}-owners", ["Owner", *spent], rows)


def _row(figures: Mapping[str, float], names: Sequence[str], form: str) -> list[str]:
    """The cells of the ways, and the ratio of Kestrel to Kafka Streams."""
    ratio = figures.get("kestrel", 0) / figures["streams"] if "streams" in figures else 0
    return [*(form.format(figures[name]) if name in figures else "" for name in names), f"{ratio:.2f}" if ratio else ""]


def _outcome(
    figures: Mapping[str, float],
    worst: Callable[[Iterable[float]], float],
    goal: float,
    reaches: Callable[[float, float], bool],
) -> str:
    """The goal, whether it is reached, and if not, what the floor has."""
    if not {"kestrel", "streams"} <= set(figures):
        return f"{goal}"
    if reaches(figures["kestrel"] / figures["streams"], goal):
        return f"{goal}, reached"
    floors = [figures[name] for name in _FLOORS if name in figures]
    return f"{goal}, missed" + (f"; the floor has {worst(floors) / figures['streams']:.2f}" if floors else "")


def main() -> None:
    """Measure and print."""
    if "quix" in WAYS:
        quix_python()
    with Broker.start() as broker, tempfile.TemporaryDirectory() as folder:
        records_ = f"{WARM} x {ROWS:,} and {ROWS:,} records of JSON in {PARTITIONS} partitions"
        print(f"{records_}, {BATCH:,} a batch, {machine()}, median of {ROUNDS} rounds")
        filled: set[str] = set()
        found: dict[str, Mapping[str, Measured]] = {}
        for job in WANTED:
            for topic in set(JOBS[job].topics) - filled:
                create(broker.address, PARTITIONS, topic)
                produce(broker.address, topic, records(topic, WHOLE))
                filled.add(topic)
            found[job] = compared(job, broker.address, Path(folder))
        tabled(found)
