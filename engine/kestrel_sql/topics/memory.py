"""A broker in memory."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from threading import Lock

import msgspec
from msgspec.structs import replace

from kestrel_sql.topics.records import Record

Arrival = tuple[int, Record]
"""A record with its arrival number, which counts the records of all topics from 0."""


class MemoryBroker(msgspec.Struct):
    """Topics as lists of records in order of arrival; several threads may produce and read at the same time.

    `partition` gives the partition that a record goes to, by default the first.
    """

    partition: Callable[[Record], int] = lambda record: 0
    _counts: dict[str, int] = {}
    _retentions: dict[str, int | None] = {}
    _ends: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)
    _topics: dict[str, list[Arrival]] = {}
    _arrivals: int = 0
    _producing: Lock = msgspec.field(default_factory=Lock)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics, in the order in which they appeared."""
        return tuple(self._topics)

    def create(self, topic: str, partitions: int = 1, retention_ms: int | None = None) -> None:
        """Create a topic; it may exist, and keeps its configuration then."""
        if topic not in self._topics:
            self._topics[topic] = []
            self._counts[topic] = partitions
            self._retentions[topic] = retention_ms

    def count_of(self, topic: str) -> int:
        """The number of partitions of a topic."""
        return self._counts.get(topic, 1)

    def delete(self, topic: str) -> None:
        """Delete a topic with all its records; it may be unknown."""
        self._topics.pop(topic, None)
        self._counts.pop(topic, None)
        self._retentions.pop(topic, None)
        for end in [end for end in self._ends if end[0] == topic]:
            del self._ends[end]

    def produce(self, record: Record, partition: int | None = None) -> Record:
        """Append a record to a partition of its topic and return it with its partition and offset."""
        with self._producing:
            records = self._topics.setdefault(record.topic, [])
            end = (record.topic, self.partition(record) if partition is None else partition)
            stored = replace(record, partition=end[1], offset=self._ends[end])
            self._ends[end] += 1
            records.append((self._arrivals, stored))
            self._arrivals += 1
        return stored

    def records(self, topic: str) -> tuple[Record, ...]:
        """The records of a topic in order of arrival; empty for an unknown topic."""
        return tuple(record for _, record in self._topics.get(topic, ()))

    def count(self, topic: str) -> int:
        """The number of records in a topic."""
        return len(self._topics.get(topic, ()))

    def partitions_and_replicas(self, topics: Iterable[str]) -> dict[str, tuple[int, int]]:
        """The numbers of partitions and replicas of the topics that exist; there is one replica."""
        return {topic: (self.count_of(topic), 1) for topic in topics if topic in self._topics}

    def assignments(self) -> tuple[dict[str, int], ...]:
        """None: there are no consumer groups."""
        return ()

    def retention_ms(self, topic: str) -> int | None:
        """How long (ms) a topic is said to keep records, None if nobody says it; in memory all are kept."""
        return self._retentions.get(topic)

    @property
    def arrivals(self) -> int:
        """The number of records that arrived so far, which is the next arrival number."""
        return self._arrivals

    def arrived(self, topics: Iterable[str], since: int = 0, until: int | None = None) -> list[Record]:
        """The records of several topics in order of arrival: arrival numbers from `since` on, below `until`."""
        entries = (entry for topic in dict.fromkeys(topics) for entry in self._between(topic, since, until))
        return [record for _, record in sorted(entries, key=itemgetter(0))]

    def waiting(self, topics: Iterable[str], since: int) -> int:
        """The number of records that arrived in several topics from the arrival number `since` on."""
        lists = (self._topics.get(topic, ()) for topic in dict.fromkeys(topics))
        return sum(len(entries) - bisect_left(entries, since, key=itemgetter(0)) for entries in lists)

    def merged(self, topics: Iterable[str], since: int = 0, until: int | None = None) -> list[Record]:
        """The records of several topics in the order in which Kafka Streams reads them.

        The next record comes from the topic whose next record has the smallest timestamp; among equal timestamps the
        record that arrived first wins. Each topic is read in offset order.
        """
        return list(_by_head([self._between(topic, since, until) for topic in dict.fromkeys(topics)]))

    def _between(self, topic: str, since: int, until: int | None) -> list[Arrival]:
        entries = self._topics.get(topic, [])
        first = bisect_left(entries, since, key=itemgetter(0))
        return entries[first : None if until is None else bisect_left(entries, until, key=itemgetter(0))]


def _by_head(queues: list[list[Arrival]]) -> Iterator[Record]:
    heads = [(queue[0][1].timestamp, queue[0][0], number, 0) for number, queue in enumerate(queues) if queue]
    heapq.heapify(heads)
    while heads:
        _, _, number, offset = heapq.heappop(heads)
        queue = queues[number]
        yield queue[offset][1]
        if offset + 1 < len(queue):
            arrival, record = queue[offset + 1]
            heapq.heappush(heads, (record.timestamp, arrival, number, offset + 1))
