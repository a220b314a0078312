"""A broker in memory: topics of one partition, what users gave apart from what queries derived."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter

from kestrel_sql.topics.records import Record

Arrival = tuple[int, Record]
"""A record with its place among all that ever arrived."""


@dataclass(slots=True)
class MemoryBroker:
    """Topics as lists of records in offset order."""

    _topics: dict[str, list[Arrival]] = field(default_factory=dict)
    _arrivals: int = 0

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics, in the order in which they appeared."""
        return tuple(self._topics)

    def create(self, topic: str) -> None:
        """Make a topic exist."""
        self._topics.setdefault(topic, [])

    def delete(self, topic: str) -> None:
        """Remove a topic with all its records, if there is one."""
        self._topics.pop(topic, None)

    def produce(self, record: Record) -> Record:
        """Append a record to the only partition of its topic; give it with the offset that it got."""
        records = self._topics.setdefault(record.topic, [])
        stored = replace(record, partition=0, offset=len(records))
        records.append((self._arrivals, stored))
        self._arrivals += 1
        return stored

    def records(self, topic: str) -> tuple[Record, ...]:
        """The records of a topic in offset order; none where there is no such topic."""
        return tuple(record for _, record in self._topics.get(topic, ()))

    def count(self, topic: str) -> int:
        """How many records a topic holds."""
        return len(self._topics.get(topic, ()))

    def copies(self, topics: Iterable[str]) -> dict[str, tuple[int, int]]:
        """One partition and one replica for every topic that exists."""
        return {topic: (1, 1) for topic in topics if topic in self._topics}

    @property
    def arrivals(self) -> int:
        """How many records ever arrived; a place from which to read on."""
        return self._arrivals

    def arrived(self, topics: Iterable[str], since: int = 0) -> list[Record]:
        """The records of several topics in the order in which they arrived, from the place `since` on."""
        entries = (entry for topic in dict.fromkeys(topics) for entry in self._since(topic, since))
        return [record for _, record in sorted(entries, key=itemgetter(0))]

    def waiting(self, topics: Iterable[str], since: int) -> int:
        """How many records arrived in several topics from the place `since` on."""
        found = (self._topics.get(topic, ()) for topic in dict.fromkeys(topics))
        return sum(len(entries) - bisect_left(entries, since, key=itemgetter(0)) for entries in found)

    def merged(self, topics: Iterable[str], since: int = 0) -> list[Record]:
        """The records of several topics as Kafka Streams reads them: always from the topic whose head is the oldest.

        Offset order within a topic is kept; of equal timestamps the record that arrived first comes first.
        """
        return list(_by_head([self._since(topic, since) for topic in dict.fromkeys(topics)]))

    def _since(self, topic: str, since: int) -> list[Arrival]:
        return [entry for entry in self._topics.get(topic, ()) if entry[0] >= since]


def _by_head(queues: list[list[Arrival]]) -> Iterator[Record]:
    heads = [(queue[0][1].timestamp, queue[0][0], number, 0) for number, queue in enumerate(queues) if queue]
    heapq.heapify(heads)
    while heads:
        _, _, number, at = heapq.heappop(heads)
        queue = queues[number]
        yield queue[at][1]
        if at + 1 < len(queue):
            arrival, record = queue[at + 1]
            heapq.heappush(heads, (record.timestamp, arrival, number, at + 1))
