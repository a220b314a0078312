"""Finds what a difference may come from: the records of the sources that have the values of its key."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from confluent_kafka import TopicPartition

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.formats.registry.memory import SchemaRegistry
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import (
    TIMEOUT,
    broker_errors,
    held_records,
    open_reader,
    partition_counts,
    until_ends,
)
from kestrel_sql.kafka.shadow.matching import Difference
from kestrel_sql.kafka.shadow.written import Reader
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.topics.records import Record

_SHOWN = 3
_NEAR_MS = 5_000
_SCANNED = 50_000


def queries_behind(session: Session, sink: str) -> dict[str, PersistentQuery]:
    """The queries that a sink comes from, by their ids, those before others included."""
    found: dict[str, PersistentQuery] = {}
    waiting = [sink]
    for name in waiting:
        new = {id_: query for id_, query in session.queries.items() if query.plan.sink == name and id_ not in found}
        found |= new
        waiting += [source for query in new.values() for source in query.plan.sources]
    return found


class Causes(msgspec.Struct, frozen=True):
    """Reads the sources of an application on a broker; a topic that is not there has no records."""

    session: Session
    config: KafkaConfig
    registry: SchemaRegistry

    def sources(self, sink: str) -> dict[str, Source]:
        """What the queries behind a sink read and none of them writes, by topic."""
        queries = queries_behind(self.session, sink).values()
        written = {query.plan.sink for query in queries}
        names = (name for query in queries for name in query.plan.sources if name not in written)
        return {self.session.catalog.sources[name].topic: self.session.catalog.sources[name] for name in names}

    def near(self, difference: Difference) -> list[tuple[SourceRecords, Record]]:
        """The last records with the key of a difference at its time, and shortly before it, in each topic."""
        found: list[tuple[SourceRecords, Record]] = []
        timestamp, wanted = difference.record.content[1], [_Wanted.of(difference)]
        for reader, partitions in self._readers(difference.sink.name):
            last: deque[Record] = deque(maxlen=_SHOWN)
            for record in self._since(reader.records.source.topic, partitions, max(0, timestamp - _NEAR_MS)):
                if record.timestamp <= timestamp and _matching(reader, record, wanted):
                    last.append(record)
            found += [(reader.records, record) for record in last]
        return found

    def all(self, sink: str, differences: Sequence[Difference]) -> list[list[tuple[SourceRecords, Record]]]:
        """All records with the key of each difference, by their times and, within a partition, by their offsets."""
        found: list[list[tuple[int, str, int, int, SourceRecords, Record]]] = [[] for _ in differences]
        wanted = [_Wanted.of(each) for each in differences]
        for reader, _ in self._readers(sink):
            topic = reader.records.source.topic
            newest: dict[int, int] = {}
            for record in chain.from_iterable(held_records(self.config, topic)):
                time = newest[record.partition] = max(record.timestamp, newest.get(record.partition, 0))
                for at in _matching(reader, record, wanted):
                    found[at].append((time, topic, record.partition, record.offset, reader.records, record))
        return [[each[4:] for each in sorted(listed, key=lambda each: each[:4])] for listed in found]

    def topics(self, sink: str) -> list[tuple[Source, int]]:
        """The sources behind a sink that have a topic, with its partitions."""
        sources = self.sources(sink)
        return [(sources[topic], count) for topic, count in partition_counts(self.config, sources).items()]

    def _readers(self, sink: str) -> Iterator[tuple[Reader, int]]:
        for source, partitions in self.topics(sink):
            yield Reader.of(0, source, source.topic, self.registry), partitions

    def _since(self, topic: str, partitions: int, timestamp: int) -> Iterator[Record]:
        with broker_errors(self.config), open_reader(self.config) as consumer:
            asked = [TopicPartition(topic, partition, timestamp) for partition in range(partitions)]
            consumer.assign(consumer.offsets_for_times(asked, TIMEOUT))
            scanned = 0
            for chunk in until_ends(consumer):
                yield from chunk
                scanned += len(chunk)
                if scanned > _SCANNED:
                    return


class _Wanted(msgspec.Struct, frozen=True):
    """A key that is looked for: its values, and bytes that every record with it has; without values a time counts."""

    values: frozenset[str]
    text: bytes
    timestamp: int

    @staticmethod
    def of(difference: Difference) -> _Wanted:
        key, _ = difference.readers[difference.record.side].key(difference.record.key)
        is_plain = isinstance(key, str) and key.isascii() and key.isalnum()
        text = key.encode() if is_plain else b""
        return _Wanted(frozenset(_scalars(key)), text, difference.record.content[1])


def _matching(reader: Reader, record: Record, wanted: Sequence[_Wanted]) -> list[int]:
    """Which keys a record has the values of, in its own key or in its columns."""
    near = [
        (at, each)
        for at, each in enumerate(wanted)
        if (each.text in (record.key or b"") or each.text in (record.value or b""))
        and (each.values or each.timestamp == record.timestamp)
    ]
    # Most records need not be decoded.
    if not near:
        return []
    of_key = {*_scalars(reader.key(record.key)[0])}
    columns = {*of_key, *_scalars(reader.value(record.value))}
    return [at for at, each in near if each.values & of_key or each.values <= columns]


def _scalars(content: object) -> Iterator[str]:
    """The values that records may be grouped and joined by, as text."""
    for value in content.values() if isinstance(content, Mapping) else [content]:
        if value is not None and not isinstance(value, list | Mapping):
            yield str(value)
