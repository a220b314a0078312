"""The partitions of the topics of a case, and the partition of each record (rules Q4.2, Q5.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.model import InputRecord, Topic
from kestrel_sql.formats.windowed_key import window_bytes
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.admin import Statement
from kestrel_sql.sql.nodes.statements import CreateAs, CreateSource
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record

PARTITIONS = 4
"""Of topics that a case does not declare, on a server (rule Q4.2)."""


def declared_partitions(topics: Iterable[Topic]) -> dict[str, int]:
    """The partitions of the topics that a case declares."""
    return {topic.name: topic.partitions for topic in topics}


def named_partitions(inputs: Iterable[InputRecord]) -> dict[str, int]:
    """Return how many partitions each topic needs for the inputs that name a partition."""
    named: dict[str, int] = {}
    for given in inputs:
        if given.partition is not None:
            named[given.topic] = max(named.get(given.topic, 1), given.partition + 1)
    return named


class Partitions(msgspec.Struct):
    """The partitions of topics: as `declared`, as inherited from what a query reads, else `others`.

    At least as `named`.
    """

    session: Session
    declared: dict[str, int] = {}
    named: Mapping[str, int] = {}
    others: int = 1
    _written: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)

    def declare(self, statement: Statement) -> None:
        """Record the PARTITIONS of a CREATE statement; the declaration of the case wins."""
        if not isinstance(statement, CreateSource | CreateAs):
            return
        count = str(dict(statement.properties).get("PARTITIONS", ""))
        source = self.session.catalog.sources.get(statement.name)
        if source is not None and count.isdecimal() and int(count) > 0:
            self.declared.setdefault(source.topic, int(count))

    def count(self, topic: str) -> int:
        """The partitions of a topic; a sink has those of the left-most topic that its query reads."""
        return max(self.named.get(topic, 1), self.declared.get(topic) or self._inherited(topic))

    def _inherited(self, topic: str) -> int:
        sources = self.session.catalog.sources
        for query in self.session.queries.values():
            if (sink := sources.get(query.plan.sink or "")) is not None and sink.topic == topic:
                left = sources.get(query.plan.sources[0])
                return self.others if left is None or left.topic == topic else self.count(left.topic)
        return self.others

    def of_input(self, topic: str, key: bytes | None, given: int | None) -> int:
        """The partition of an input.

        As given, 0 where only others of its topic give one, else that of Java's producer.
        """
        return given or 0 if topic in self.named else _of_key(key, self.count(topic))

    def of_output(self, record: Record) -> int:
        """The partition that a query writes a record to: a windowed key is placed without its window."""
        count = self.count(record.topic)
        if count == 1 or record.key is None:
            return 0
        source = next(iter(self.session.sources_of_topic(record.topic)), None)
        window = 0 if source is None else window_bytes(source.window)
        return _of_key(record.key[: len(record.key) - window], count)

    def stored(self, record: Record) -> Record:
        """The record of a query at the end of its partition."""
        partition = self.of_output(record)
        offset = self._written[record.topic, partition]
        self._written[record.topic, partition] += 1
        return replace(record, partition=partition, offset=offset)


def _of_key(key: bytes | None, count: int) -> int:
    return 0 if key is None or count == 1 else partition_of(key, count)
