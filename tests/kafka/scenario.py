"""Five kinds of queries over two topics, with one input, to compare the output of undisturbed and disturbed runs."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.spark.checkpoint.batch_log import numbered
from kestrel_sql.spark.runtime.session import INTERPRETED
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath
from tests.kafka.applications import Applications
from tests.kafka.helpers import create, produce, reach, read, spark_options, start
from tests.kafka.processes import await_in

SOURCES = """
CREATE STREAM A (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_a', VALUE_FORMAT='JSON');
CREATE STREAM B (K STRING KEY, W INT) WITH (KAFKA_TOPIC='{0}_b', VALUE_FORMAT='JSON');
CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='{0}_a', VALUE_FORMAT='JSON');
"""
QUERIES = {
    "f": "CREATE STREAM F WITH (KAFKA_TOPIC='{0}_f{1}') AS SELECT * FROM A WHERE V % 3 <> 0;",
    "c": "CREATE TABLE C WITH (KAFKA_TOPIC='{0}_c{1}') AS SELECT K, COUNT(*) AS N, SUM(V) AS TOTAL FROM A GROUP BY K;",
    "u": "CREATE TABLE U WITH (KAFKA_TOPIC='{0}_u{1}') AS SELECT K, V + 1 AS V FROM T;",
    "j": (
        "CREATE STREAM J WITH (KAFKA_TOPIC='{0}_j{1}') AS"
        " SELECT A.K AS K, V, W FROM A JOIN B WITHIN 20 MILLISECONDS ON A.K = B.K;"
    ),
    "x": (
        "CREATE TABLE X WITH (KAFKA_TOPIC='{0}_x{1}') AS"
        " SELECT K, COUNT(*) AS N FROM B WINDOW SESSION (30 MILLISECONDS) GROUP BY K;"
    ),
}
ALL, FEW = tuple(QUERIES), ("f", "c", "j")
"""The sinks of all queries, and of those in the short tier.

One without state, one with state, one that merges two topics.
"""
PARTITIONS = 2

LEAN = tuple(
    spark_options(
        {
            name: INTERPRETED[name]
            for name in (
                "spark.driver.extraJavaOptions",
                "spark.sql.codegen.wholeStage",
                "spark.sql.codegen.factoryMode",
                "spark.sql.lightweightPlanChangeValidation",
            )
        }
    )
)
"""Compiling expressions and checking byte code and plans do not pay in a short run."""
SMALL = ("--property", "auto.offset.reset=earliest", "--batch-records", "60")

Outputs = dict[str, dict[tuple[int, bytes | None], list[tuple[bytes | None, int]]]]
"""Values and timestamps (ms) in offset order, by sink, then by partition and key."""

_NONE = -1


@dataclass(frozen=True)
class Scenario:
    """The input depends on a seed and a recent timestamp (ms) only. Brokers compact old records soon."""

    servers: str
    name: str
    folder: Path
    rows: int
    began: int
    sinks: Sequence[str] = ALL
    store: CheckpointPath | None = None
    """Where checkpoints of processes are, if not in `folder`; `settings` of Spark reach it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1

    def produce(self) -> None:
        random_ = random.Random(self.rows)
        create(self.servers, PARTITIONS, f"{self.name}_a", f"{self.name}_b", replicas=self.replicas)
        for topic, column in (("a", "V"), ("b", "W")):
            rows = (
                (f"k{random_.randrange(20)}", json.dumps({column: at}), self.began + at + random_.randrange(9))
                for at in range(self.rows)
            )
            produce(self.servers, f"{self.name}_{topic}", rows)

    def checkpoint(self, run_name: str) -> CheckpointPath:
        return (self.store or self.folder) / run_name

    def text(self, run_name: str) -> str:
        return "\n".join((SOURCES, *(QUERIES[sink] for sink in self.sinks))).format(self.name, run_name)

    def script(self, run_name: str) -> Path:
        path = self.folder / f"{run_name}.sql"
        path.write_text(self.text(run_name), encoding="utf-8")
        return path

    def start(self, run_name: str, *options: str) -> subprocess.Popen[bytes]:
        log, checkpoint = self.folder / f"{run_name}.log", str(self.checkpoint(run_name))
        conf = spark_options(self.settings)
        return start(self.script(run_name), self.servers, checkpoint, *LEAN, *SMALL, *conf, *options, log=log)

    def finish(self, run_name: str, spark: SparkSession) -> None:
        """Run in this process until all records are read."""
        applications = Applications(spark, KafkaConfig(servers=self.servers))
        done = applications.catch_up(self.text(run_name), self.folder / run_name)
        assert done.well, done.text

    def said(self, run_name: str) -> str:
        return (self.folder / f"{run_name}.log").read_text(encoding="utf-8", errors="replace")[-3000:]

    def outputs(self, run_name: str) -> Outputs:
        found: Outputs = {}
        for sink in self.sinks:
            keys: dict[tuple[int, bytes | None], list[tuple[bytes | None, int]]] = defaultdict(list)
            for partition, key, value, moment in read(self.servers, f"{self.name}_{sink}{run_name}", PARTITIONS):
                keys[partition, key].append((value, moment))
            found[sink] = dict(keys)
        return found

    def await_outputs(
        self, run_name: str, process: subprocess.Popen[bytes], expected: Outputs, seconds: float = 180
    ) -> None:
        """Wait until every sink has the expected number of records."""
        wanted = {f"{self.name}_{sink}{run_name}": sum(map(len, expected[sink].values())) for sink in self.sinks}

        def has_all() -> bool:
            return all(len(read(self.servers, topic, PARTITIONS)) >= count for topic, count in wanted.items())

        self._await(run_name, process, has_all, f"not all of {wanted} are there", seconds, pause=0.3)

    def await_batch(self, run_name: str, process: subprocess.Popen[bytes], *sinks: str, seconds: float = 120) -> None:
        """Wait until the queries of these sinks, or without sinks any query, have begun a batch."""
        before = self._batches(run_name, "offsets")

        def begun() -> bool:
            now = self._batches(run_name, "offsets")
            fresh = {sink for sink, number in now.items() if number > before.get(sink, _NONE)}
            return fresh >= set(sinks) if sinks else bool(fresh)

        self._await(run_name, process, begun, f"no batch begins for {sinks or 'any sink'}", seconds)

    def await_write(self, run_name: str, process: subprocess.Popen[bytes], *sinks: str, seconds: float = 120) -> None:
        """Wait until one of these sinks has a record, committed or not."""
        with reach(self.servers, [f"{self.name}_{sink}{run_name}" for sink in sinks], PARTITIONS) as ends:
            before = ends()
            self._await(
                run_name, process, lambda: ends() > before, f"nothing is written to {sinks}", seconds, pause=0.01
            )

    def await_said(
        self,
        run_name: str,
        process: subprocess.Popen[bytes],
        *words: str,
        since: int | None = None,
        seconds: float = 120,
    ) -> None:
        """Wait until a message of a run contains one of these words; `since` is in bytes (None: from now on)."""
        path = self.folder / f"{run_name}.log"
        before = path.stat().st_size if since is None else since

        def heard() -> bool:
            fresh = path.read_bytes()[before:].decode("utf-8", "replace")
            return any(word in fresh for word in words)

        self._await(run_name, process, heard, f"nothing is said of {words}", seconds)

    def begun(self, run_name: str) -> int:
        """The number of queries with a begun but uncommitted batch in the checkpoint."""
        return len(self.begun_sinks(run_name))

    def begun_sinks(self, run_name: str) -> set[str]:
        """The sinks of these queries."""
        done = self._batches(run_name, "commits")
        return {sink for sink, number in self._batches(run_name, "offsets").items() if number > done.get(sink, _NONE)}

    def ahead(self, run_name: str) -> int:
        """Return the number of queries with a batch that is committed on the broker but not in the checkpoint."""
        done = self._batches(run_name, "commits")
        manifest = CheckpointFolder(self.checkpoint(run_name)).load()
        ahead = 0
        for stored in manifest.queries.values():
            sink, group = _sink_of(stored.id), f"{manifest.application}-{stored.id}"
            by_slot = [self._written(f"{group}-slots", topic) for topic in stored.sources]
            written = max(self._written(group, f"{self.name}_{sink}{run_name}"), *by_slot)
            ahead += written > done.get(sink, _NONE)
        return ahead

    def _written(self, group: str, topic: str) -> int:
        """The last batch with a committed record."""
        consumer: Any = Consumer(
            {"bootstrap.servers": self.servers, "group.id": group, "isolation.level": "read_uncommitted"}
        )
        try:
            marks = consumer.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=30)
        finally:
            consumer.close()
        return max(_NONE, *(int(mark.offset) for mark in marks))

    def _await(
        self,
        run_name: str,
        process: subprocess.Popen[bytes],
        happened: Callable[[], bool],
        otherwise: str,
        seconds: float,
        pause: float = 0.1,
    ) -> None:
        await_in(process, happened, otherwise, lambda: self.said(run_name), seconds=seconds, pause=pause)

    def _batches(self, run_name: str, log: str) -> dict[str, int]:
        """The last batch in one of Spark's logs, by sink."""
        found = {}
        queries = self.checkpoint(run_name) / "queries"
        for query in queries.iterdir() if queries.is_dir() else ():
            found[_sink_of(query.name)] = max(numbered(query / log), default=_NONE)
        return found


def _sink_of(query: str) -> str:
    """Query ids are like `CSAS_F_0`."""
    return query.split("_")[1].lower()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing the records; `flaws` are the differences."""

    records: int
    lost: int
    twice: int
    disordered: int
    """The number of keys whose records are complete but in another order."""
    flaws: tuple[str, ...]


def compare(found: Outputs, expected: Outputs) -> Comparison:
    """Compare records key by key."""
    lost = twice = disordered = 0
    flaws = []
    for sink in expected:
        for key in sorted({*found[sink], *expected[sink]}, key=str):
            ours, theirs = found[sink].get(key, []), expected[sink].get(key, [])
            if ours != theirs:
                missing, surplus = Counter(theirs) - Counter(ours), Counter(ours) - Counter(theirs)
                lost, twice, disordered = (
                    lost + missing.total(),
                    twice + surplus.total(),
                    disordered + (not missing and not surplus),
                )
                at = next(
                    (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
                    min(len(ours), len(theirs)),
                )
                flaws.append(
                    f"{sink} {key!r}: {len(ours)} of {len(theirs)}; at {at}: {ours[at : at + 2]} for"
                    f" {theirs[at : at + 2]}"
                )
    records = sum(len(rows) for keys in expected.values() for rows in keys.values())
    return Comparison(records, lost, twice, disordered, tuple(flaws))


def differences(found: Outputs, expected: Outputs) -> list[str]:
    """A short text about lost, duplicate and reordered records."""
    return list(compare(found, expected).flaws)
