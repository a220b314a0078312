"""A service of ksqlDB that is stopped and taken over, beside one that nobody disturbs; the demonstration shows it."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from tests.kafka.helpers import create, read
from tests.kafka.ksqldb import start_ksqldb
from tests.kafka.servers import Server, Servers, eventually

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
    # Kafka Streams looks for windows since 1970, in steps of half of the retention: by default in 30 million.
    "final": (
        "k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS, RETENTION 30 DAYS, GRACE PERIOD 1 SECOND) GROUP BY k EMIT FINAL"
    ),
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
    second: float
    """The share of rows of s2."""
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

    def streams(self, count: int, at_once: int) -> None:
        for _ in range(0, count, at_once):
            self._write([self._row() for _ in range(at_once)])
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
        if self.random.random() < self.second:
            return "s2", key, {"W": self.random.randrange(9)}
        return "s", key, {"V": pick([None, 1, 2, 5, 7]), "C": pick([None, "x", "y", "z"]), "D": pick([0.5, -2.0])}

    def _write(self, rows: Iterable[tuple[str, str, Mapping[str, Any] | None]]) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "partitioner": "murmur2_random", "linger.ms": 0})
        for name, key, value in rows:
            self.now += self.random.randrange(300)
            data = None if value is None else json.dumps(value)
            producer.produce(f"{self.prefix}{name}", key=key, value=data, timestamp=self.now)
        assert producer.flush(30) == 0

    def are_read_by(self, group: str) -> bool:
        """Whether a group has committed the ends of what it reads."""
        return has_read(self.servers, group, self._ends())

    def trim(self) -> None:
        """Delete all records, as retention does."""
        admin = admin_client(KafkaConfig(servers=self.servers))
        places = [TopicPartition(*place, end) for place, end in self._ends().items()]
        for future in admin.delete_records(places).values():
            future.result()

    def _ends(self) -> Mapping[tuple[str, int], int]:
        return ends_of(self.servers, self.topics)


def ends_of(servers: str, topics: Iterable[str]) -> Mapping[tuple[str, int], int]:
    places = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]
    return BrokerOffsets(KafkaConfig(servers=servers)).ends(places)


def has_read(servers: str, group: str, ends: Mapping[tuple[str, int], int]) -> bool:
    """Whether a group has committed these ends, of the partitions that it reads."""
    consumer: Any = Consumer({"bootstrap.servers": servers, "group.id": group})
    with closing(consumer):
        committed = consumer.committed([TopicPartition(*place) for place in ends], 20)
    offsets = [(each.offset, ends[each.topic, each.partition]) for each in committed if each.offset >= 0]
    return bool(offsets) and all(offset >= end for offset, end in offsets)


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The service of `servers` and its control, two servers of ksqlDB with the same queries over the same topics."""

    servers: Servers
    inputs: Inputs
    ksqldb: Mapping[str, Server]
    groups: Mapping[str, list[str]]
    """The consumer groups of each service."""

    @classmethod
    def begin(cls, servers: Servers, queries: Iterable[str], second: float = 0.4) -> Self:
        """Start both servers, and create the queries of these names."""
        inputs = Inputs(servers.servers, servers.service, second)
        create(servers.servers, PARTITIONS, *inputs.topics)
        ksqldb = {
            name: start_ksqldb(servers.servers, name, servers.folder, servers.stack, LESS_OFTEN)
            for name in (servers.service, f"c{servers.service}")
        }

        def begin(name: str) -> list[str]:
            eventually(ksqldb[name].is_up, ksqldb[name])
            return declare(ksqldb[name], name, inputs.prefix, queries)

        with ThreadPoolExecutor() as pool:
            groups = dict(zip(ksqldb, pool.map(begin, ksqldb), strict=True))
        return cls(servers, inputs, ksqldb, groups)

    def feed(self, count: int, at_once: int = 20) -> None:
        """Write changes of the tables, and when they are read rows of the streams.

        Joins then find the rows of tables, whichever of their topics comes first.
        """
        self.inputs.tables()
        self._await_reading(lambda group: any(name in group for name in ("TABLE", "FOREIGN", "LOOKED_UP")))
        self.inputs.streams(count, at_once)

    def stop(self) -> None:
        """Stop the service when all is read, and delete what it has read."""
        self._await_reading(lambda _: True)
        self.ksqldb[self.servers.service].end()
        self.inputs.trim()

    def _await_reading(self, counts: Callable[[str], bool]) -> None:
        """Wait until the groups that count have read everything, of each server that runs."""
        for name, server in self.ksqldb.items():
            if server.lives():
                for group in filter(counts, self.groups[name]):
                    eventually(partial(self.inputs.are_read_by, group), server)

    def outputs(self, query: str) -> tuple[Any, Any]:
        """What counts of the records that the service and its heir wrote, and of the control's, when they are equal.

        After a minute they are given as they are.
        """
        deadline = time.monotonic() + 60
        while True:
            ours, wanted = (rows_of(self.servers.servers, f"{service}{query}", query) for service in self.ksqldb)
            if ours == wanted or time.monotonic() > deadline:
                return ours, wanted
            time.sleep(0.5)


def statement(service: str, query: str) -> str:
    """The statement that creates a query."""
    text = {**TABLES, **STREAMS}[query]
    return f"CREATE {KINDS[query]} q_{query} WITH (KAFKA_TOPIC='{service}{query}') AS SELECT {text};"


def declare(server: Server, service: str, prefix: str, queries: Iterable[str]) -> list[str]:
    """Create queries, and return their consumer groups."""
    found = server.ksql("\n".join([SOURCES.format(prefix), *(statement(service, query) for query in queries)]))
    assert isinstance(found, list), found
    ids = (each["commandStatus"]["queryId"] for each in found)
    return [f"_confluent-ksql-{service}query_{query}" for query in ids if query is not None]


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
