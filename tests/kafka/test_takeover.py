"""A service of ksqlDB is stopped and taken over; with it, its sinks hold what an undisturbed service writes."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from tests.kafka.helpers import create, read
from tests.kafka.ksqldb import needs_ksqldb, start_ksqldb
from tests.kafka.servers import Server, Servers, eventually

pytestmark = pytest.mark.spark

PARTITIONS = 2
SOURCES = """
CREATE STREAM s (k STRING KEY, v INT, c STRING, d DOUBLE) WITH (KAFKA_TOPIC='{0}s', VALUE_FORMAT='JSON');
CREATE STREAM s2 (k STRING KEY, w INT) WITH (KAFKA_TOPIC='{0}s2', VALUE_FORMAT='JSON');
CREATE TABLE t (k STRING PRIMARY KEY, v INT, c STRING) WITH (KAFKA_TOPIC='{0}t', VALUE_FORMAT='JSON');
CREATE TABLE t2 (k STRING PRIMARY KEY, w INT) WITH (KAFKA_TOPIC='{0}t2', VALUE_FORMAT='JSON');
"""
TABLES = {
    "aggregates": (
        "k, COUNT(*) AS n, AVG(v) AS a, MAX(c) AS m, LATEST_BY_OFFSET(v) AS l, EARLIEST_BY_OFFSET(v, 2) AS e,"
        " COLLECT_SET(c) AS cs, TOPK(v, 2) AS tk, HISTOGRAM(c) AS h, STDDEV_SAMP(v) AS sd, CORRELATION(d, d) AS co"
        " FROM s GROUP BY k"
    ),
    "groups": "c, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY c HAVING COUNT(*) > 1",
    "hopping": (
        "k, COUNT(*) AS n FROM s WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, GRACE PERIOD 1 MINUTE)"
        " GROUP BY k"
    ),
    "sessions": "k, COUNT(*) AS n FROM s WINDOW SESSION (2 SECONDS, GRACE PERIOD 1 MINUTE) GROUP BY k",
    "table_groups": "c, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY c",
    "tables": "t.k, t.v, t2.w FROM t LEFT JOIN t2 ON t.k = t2.k",
    "foreign": "t.k, t.v, t2.w FROM t JOIN t2 ON t.c = t2.k",
}
STREAMS = {
    "final": ("k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY k EMIT FINAL"),
    "looked_up": "s.k, s.v, t.c FROM s LEFT JOIN t ON s.k = t.k",
    "joined": ("s.k, s.v, s2.w FROM s LEFT JOIN s2 WITHIN 2 SECONDS GRACE PERIOD 1 SECOND ON s.k = s2.k"),
    "filtered": "* FROM s WHERE v > 3",
}
"""The queries of which each record counts; of those of TABLES the last one of each key does."""

KINDS = {**dict.fromkeys(TABLES, "TABLE"), **dict.fromkeys(STREAMS, "STREAM"), "final": "TABLE"}
OF_TABLES = ("table_groups", "tables", "foreign")
KEYS = "abcdefgh"
LESS_OFTEN = "commit.interval.ms=500"
"""So many queries of two servers are busy with their transactions otherwise."""


@dataclass(slots=True)
class Inputs:
    """Writes rows of four topics in the order of their times, which are of today."""

    servers: str
    prefix: str
    now: int = field(default_factory=lambda: int(time.time() * 1000) // 10_000 * 10_000 - 600_000)
    random: random.Random = field(default_factory=lambda: random.Random(7))

    @property
    def topics(self) -> list[str]:
        return [f"{self.prefix}{name}" for name in ("s", "s2", "t", "t2")]

    def tables(self) -> None:
        rows = [("t", key, {"V": self.random.randrange(9), "C": self.random.choice("abcx")}) for key in KEYS]
        rows += [("t2", key, {"W": self.random.randrange(9)}) for key in "abcx"]
        removed = self.random.choice(KEYS)
        self._write([*rows, ("t", removed, None), ("t2", self.random.choice("abc"), None)])

    def streams(self, count: int) -> None:
        for _ in range(0, count, 20):
            self._write([self._row() for _ in range(20)])
            # What ksqlDB reads at once of two topics it takes in the order of their times.
            time.sleep(0.2)

    def close_windows(self) -> None:
        """Let time pass in each partition: ksqlDB looks at most once a second whether windows have closed."""
        for _ in range(3):
            time.sleep(1.2)
            self.now += 20_000
            self._write([("s", key, {"V": 1, "C": "x", "D": 1.5}) for key in KEYS])

    def _row(self) -> tuple[str, str, Mapping[str, Any] | None]:
        pick, key = self.random.choice, self.random.choice(KEYS)
        if self.random.random() < 0.4:
            return "s2", key, {"W": self.random.randrange(9)}
        return "s", key, {"V": pick([None, 1, 2, 5, 7]), "C": pick([None, "x", "y", "z"]), "D": pick([0.5, -2.0])}

    def _write(self, rows: Iterable[tuple[str, str, Mapping[str, Any] | None]]) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "partitioner": "murmur2_random", "linger.ms": 0})
        for name, key, value in rows:
            self.now += self.random.randrange(300)
            data = None if value is None else json.dumps(value)
            producer.produce(f"{self.prefix}{name}", key=key, value=data, timestamp=self.now)
        assert producer.flush(30) == 0

    def are_read_by(self, groups: Iterable[str]) -> bool:
        """Whether groups have committed the ends of what they read."""
        ends = self._ends()
        return all(self._has_read(group, ends) for group in groups)

    def _has_read(self, group: str, ends: Mapping[tuple[str, int], int]) -> bool:
        consumer: Any = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        with closing(consumer):
            committed = consumer.committed([TopicPartition(*place) for place in ends], 20)
        offsets = [(each.offset, ends[each.topic, each.partition]) for each in committed if each.offset >= 0]
        return bool(offsets) and all(offset >= end for offset, end in offsets)

    def trim(self) -> None:
        """Delete all records, as retention does."""
        admin = admin_client(KafkaConfig(servers=self.servers))
        places = [TopicPartition(*place, end) for place, end in self._ends().items()]
        for future in admin.delete_records(places).values():
            future.result()

    def _ends(self) -> Mapping[tuple[str, int], int]:
        places = [(topic, partition) for topic in self.topics for partition in range(PARTITIONS)]
        return BrokerOffsets(KafkaConfig(servers=self.servers)).ends(places)


def test_a_service_that_is_taken_over_writes_what_an_undisturbed_one_does(
    kafka: KafkaConfig, spark: SparkSession, tmp_path: Path
) -> None:
    needs_ksqldb()
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack)
        inputs, control = Inputs(kafka.servers, servers.service), f"c{servers.service}"
        create(kafka.servers, PARTITIONS, *inputs.topics)
        names = (servers.service, control)
        ksqldb = [start_ksqldb(kafka.servers, name, tmp_path, stack, LESS_OFTEN) for name in names]
        for server in ksqldb:
            eventually(server.is_up, server)
        first, second = (declare(server, name, inputs.prefix) for server, name in zip(ksqldb, names, strict=True))
        # Joins then find the rows of tables, whichever of their topics comes first.
        inputs.tables()
        eventually(lambda: inputs.are_read_by([*of_tables(first), *of_tables(second)]), ksqldb[0])
        inputs.streams(200)
        eventually(lambda: inputs.are_read_by([*first, *second]), ksqldb[0])
        ksqldb[0].end()
        inputs.trim()

        heir = servers.here(spark, adopts=True)
        inputs.tables()
        eventually(lambda: inputs.are_read_by(of_tables(second)), ksqldb[1])
        inputs.streams(100)
        inputs.close_windows()
        eventually(lambda: heir.said().count("goes on") == len(KINDS), heir)
        for name in KINDS:
            await_equal(kafka.servers, [f"{service}{name}" for service in names], name)


def declare(server: Server, service: str, prefix: str) -> list[str]:
    """Create all queries, and return their consumer groups."""
    texts = [SOURCES.format(prefix)]
    for name, query in {**TABLES, **STREAMS}.items():
        texts.append(f"CREATE {KINDS[name]} q_{name} WITH (KAFKA_TOPIC='{service}{name}') AS SELECT {query};")
    found = server.ksql("\n".join(texts))
    assert isinstance(found, list), found
    queries = (each["commandStatus"]["queryId"] for each in found)
    return [f"_confluent-ksql-{service}query_{query}" for query in queries if query is not None]


def of_tables(groups: Iterable[str]) -> list[str]:
    """The groups of the queries that read tables."""
    return [group for group in groups if any(name in group for name in ("TABLE", "FOREIGN", "LOOKED_UP"))]


def await_equal(servers: str, sinks: Iterable[str], name: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        ours, wanted = (rows_of(servers, sink, name) for sink in sinks)
        if ours == wanted or time.monotonic() > deadline:
            assert ours == wanted, name
            return
        time.sleep(0.5)


def rows_of(servers: str, topic: str, name: str) -> Any:
    """What counts of the records of a sink."""
    records = read(servers, topic, PARTITIONS)
    if name in STREAMS:
        return Counter(records)
    last = {(partition, key): (value, timestamp) for partition, key, value, timestamp in records}
    # Of several changes at once ksqlDB's cache lets the last one through, and its time.
    return {
        place: value if name in OF_TABLES else (value, timestamp)
        for place, (value, timestamp) in last.items()
        if value is not None
    }
