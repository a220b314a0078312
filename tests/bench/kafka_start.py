"""The time from the start of `kestrel run` against a broker to its first output, by step.

    python -m tests.bench kafka_start           (ROUNDS=1 QUERIES=200 by default, as environment variables)

There are three applications: one filter, the four chained queries of `make demo-kafka`, and QUERIES=200 filters of one
topic. The last is also started with `--share-sources` (WAYS=shared), and as a user of PySpark writes it, with Spark's
own sink (WAYS=pyspark). Steps are timed in the running process; they overlap, so they do not add up. A consumer outside
measures when it can read the first record from the first and from the last topic.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kestrel_sql.kafka.broker.broker import Broker
from tests.bench.measure import machine, processor_seconds, seconds_by_owner
from tests.bench.tables import write_table
from tests.kafka import demo
from tests.kafka.helpers import create, produce
from tests.kafka.processes import kill

ROUNDS = int(os.environ.get("ROUNDS", "1"))
_BEGUN = "KESTREL_BENCH_BEGUN"
_MOST_S = 600.0
_HEAP = "1g"
"""The heap of PySpark by hand, as Kestrel has it by default."""

FILTER = """
CREATE STREAM ORDERS (ID STRING KEY, CUSTOMER STRING, AMOUNT INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM LARGE WITH (KAFKA_TOPIC='large') AS SELECT * FROM ORDERS WHERE AMOUNT >= 10;
"""

APPLICATIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    "one filter": (FILTER, ("large",)),
    "four chained queries": (demo.SCRIPT, demo.SINKS),
}

QUERIES = int(os.environ.get("QUERIES", "200"))
WAYS = os.environ.get("WAYS", "kestrel,shared,pyspark").split(",")
MANY = [f"large{number}" for number in range(QUERIES)]


def _applications() -> Mapping[str, tuple[str, Sequence[str]]]:
    source, query = FILTER.strip().splitlines()
    queries = [query.replace("LARGE", name.upper()).replace("large", name) for name in MANY]
    return {**APPLICATIONS, f"{QUERIES} filters": ("\n".join([source, *queries]), MANY)}


STEPS: Sequence[tuple[str, str, str]] = (
    ("kestrel_sql.kafka.run.application", "connect", "connect to the broker"),
    ("kestrel_sql.kafka.run.broker_session", "connector_jars", "find the connector's jars"),
    ("pyspark.core.context", "launch_gateway", "start the JVM"),
    ("kestrel_sql.kafka.run.broker_session", "open_given", "open the session, with the JVM"),
    ("kestrel_sql.kafka.run.script", "Script.execute", "plan the statements, make topics"),
    ("kestrel_sql.kafka.run.run", "ProductionRun._prepare", "build pipelines, check topics"),
    ("kestrel_sql.kafka.run.running_query", "RunningQuery.start", "start the queries"),
    ("kestrel_sql.kafka.run.running_query", "write_batch", "write the first batches"),
    ("kestrel_sql.kafka.sink.sink", "_layout", "… ask where the sink stands"),
    ("kestrel_sql.kafka.sink.sink", "gathered", "… lay out the shuffle"),
)
"""Module, function and what it does, in about the order in which they come."""


class Trace:
    """When each step began and ended, in seconds since the command was given."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self.spans: list[tuple[str, float, float]] = []

    def now(self) -> float:
        """Seconds since the command was given."""
        return time.time() - self._begun

    def watch(self, module: str, path: str, label: str) -> None:
        """Time every call of a function."""
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, importlib.import_module(module))
        setattr(owner, name, self._timed(getattr(owner, name), label))

    def _timed(self, function: Callable[..., Any], label: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            since = self.now()
            try:
                return function(*given, **named)
            finally:
                self.spans.append((label, since, self.now()))
                # One write: queries start and write at the same time.
                sys.stdout.write(f"{json.dumps(self.spans[-1])}\n")
                sys.stdout.flush()

        return timed


def _run(arguments: list[str]) -> int:
    """Run `kestrel`, and print the spans of its steps as JSON lines."""
    trace = Trace(float(os.environ[_BEGUN]))
    since = trace.now()
    print(json.dumps(("start Python", 0.0, since)), flush=True)
    cli = importlib.import_module("kestrel_sql.cli.main")
    print(json.dumps(("import the command", since, trace.now())), flush=True)
    for module, path, label in STEPS:
        trace.watch(module, path, label)
    return int(cli.main(arguments))


def _first_records(servers: str, topics: Sequence[str], begun: float) -> dict[str, float]:
    """Return the time (s) of the first committed record of each topic."""
    consumer: Any = Consumer(
        {"bootstrap.servers": servers, "group.id": "start", "isolation.level": "read_committed", "log_level": 0}
    )
    missing = set(topics)
    found: dict[str, float] = {}
    while missing and time.time() - begun < _MOST_S:
        known = consumer.list_topics(timeout=10).topics
        there = [
            TopicPartition(topic, number, OFFSET_BEGINNING)
            for topic in missing & set(known)
            for number in known[topic].partitions
        ]
        if not there:
            time.sleep(0.05)
            continue
        consumer.assign(there)
        message = consumer.poll(0.5)
        while message is not None:
            if message.error() is None and message.topic() in missing:
                found[message.topic()] = time.time() - begun
                missing.discard(message.topic())
            message = consumer.poll(0.1)
    consumer.close()
    return found


def _kestrel(servers: str, script: str, folder: Path, begun: float, *options: str) -> Popen[bytes]:
    file = folder / "app.sql"
    file.write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "tests.bench.kafka_start", "run", str(file), "--bootstrap-servers", servers]
    command += ["--checkpoint", str(folder / "checkpoint"), *demo.OPTIONS, *shlex.split(os.environ.get("OPTIONS", ""))]
    command += options
    with (folder / "spans").open("wb") as out:
        return Popen(command, env={**os.environ, _BEGUN: str(begun)}, stdout=out, stderr=DEVNULL)


def _pyspark(servers: str, sinks: Sequence[str], folder: Path) -> Popen[bytes]:
    job = ["filter", servers, "orders", ",".join(sinks), str(folder), demo.OPTIONS[-1], "1"]
    command = [sys.executable, "-m", "tests.bench.peers.spark_job", *job]
    with (folder / "started").open("wb") as out:
        return Popen(command, env={**os.environ, "HEAP": _HEAP}, stdout=out, stderr=DEVNULL)


def _watch(process: Popen[bytes], servers: str, sinks: Sequence[str], begun: float) -> tuple[float, float]:
    """Print when the first records come, and what the processor time until then was spent on; return the last moment
    (s) and that time (s).
    """
    try:
        found = _first_records(servers, sinks, begun)
        busy, owners = processor_seconds(process.pid), seconds_by_owner(process.pid)
    finally:
        kill(process)
    spent = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(owners.items(), key=lambda each: -each[1]))
    print(f"    {busy:.1f} s of processor time in all: {spent}")
    by_time = sorted(sinks, key=lambda topic: found.get(topic, _MOST_S))
    for topic in sinks if sinks is not MANY else (by_time[0], by_time[-1]):
        print(f"    first record of {topic:11} after {found.get(topic, float('nan')):.1f} s")
    return found.get(by_time[-1], _MOST_S), busy


def _print_spans(file: Path, queries: int) -> float:
    """Print the steps; return when the last query had started (s)."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for line in file.read_bytes().splitlines():
        if line.startswith(b"["):
            label, since, until = json.loads(line)
            spans.setdefault(label, []).append((since, until))
    for label, each in spans.items():
        some = each[: 2 * queries]
        print(
            f"    {some[0][0]:6.2f} to {some[-1][1]:6.2f} s  {sum(b - a for a, b in some):6.2f} s in {len(some):2}"
            f" calls  {label}"
        )
    return max(until for _, until in spans["start the queries"])


def main() -> None:
    """Measure and print."""
    print(f"from the command to the first output, {machine()}")
    rows = []
    for turn, (name, (script, sinks)), way in product(range(ROUNDS), _applications().items(), WAYS):
        if way != "kestrel" and sinks is not MANY:
            continue
        with Broker.start() as broker, tempfile.TemporaryDirectory() as folder:
            create(broker.address, demo.PARTITIONS, "orders", "customers")
            produce(broker.address, "customers", demo.customers())
            produce(broker.address, "orders", demo.orders())
            print(f"  {way}: {name}, round {turn + 1}", flush=True)
            begun = time.time()
            if way == "pyspark":
                create(broker.address, demo.PARTITIONS, *sinks)
                last, busy = _watch(_pyspark(broker.address, sinks, Path(folder)), broker.address, sinks, begun)
                started = float((Path(folder) / "started").read_text()) - begun
            else:
                options = ["--share-sources"] if way == "shared" else []
                run = _kestrel(broker.address, script, Path(folder), begun, *options)
                last, busy = _watch(run, broker.address, sinks, begun)
                started = _print_spans(Path(folder) / "spans", len(sinks))
            rows.append([name, way, f"{started:.1f} s", f"{last:.1f} s", f"{busy:.0f} s"])
    columns = ["Application", "Way", "All queries have started", "First output of the last", "Processor time"]
    write_table("start", columns, rows)


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
