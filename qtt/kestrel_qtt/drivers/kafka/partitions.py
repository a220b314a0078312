"""Topics of a case's own on the broker: their names, their partitions, and the partition that each record belongs to.

A topic has the partitions that the case declares for it, else one; a sink inherits those of the topics that its query reads. A record
goes to the partition that the case names, else to the one of its key, as Java's producer chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from kestrel_qtt.drivers.records.run import CaseRun
from kestrel_sql.formats.windowed_key import window_bytes
from kestrel_sql.session.session import PersistentQuery
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record


@dataclass(slots=True)
class OwnTopics:
    """The topics of one case: their names on the broker, by their names in the case, and how many partitions each has."""

    prefix: str
    names: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(run: CaseRun, prefix: str) -> OwnTopics:
        """The topics that a planned case gives records for, reads and writes."""
        topics = OwnTopics(prefix)
        declared = _declared(run)
        sources = run.session.catalog.sources
        fed = [record.topic for record in given_records(run)]
        for topic in (*fed, *(source.topic for source in sources.values() if source.created_by is None)):
            topics.add(topic, declared.get(topic, 1))
        for query in run.session.queries.values():
            sink = sources.get(query.plan.sink or "")
            if sink is not None:
                topics.add(sink.topic, declared.get(sink.topic, next(topics.counts_read(run, query), 1)))
        for source in sources.values():
            topics.add(source.topic, declared.get(source.topic, 1))
        return topics

    def add(self, topic: str, partitions: int) -> None:
        """Give a topic of the case a name and a number of partitions, if it has none yet."""
        if topic not in self.names:
            self.names[topic] = f"{self.prefix}-{len(self.names)}"
            self.counts[topic] = partitions

    def on_broker(self) -> dict[str, int]:
        """The number of partitions of each topic, by its name on the broker."""
        return {name: self.counts[topic] for topic, name in self.names.items()}

    def counts_read(self, run: CaseRun, query: PersistentQuery) -> Iterator[int]:
        """The partitions of the topics that a query reads, the left-most first."""
        return (self.counts.get(topic, 1) for topic in run.topics_read(query))

    def placed(self, run: CaseRun) -> list[Record]:
        """The records that a case gives, each with its partition: that of the case, else that of its key."""
        named = {given.topic for given in run.case.inputs if given.partition is not None}
        return [
            replace(record, partition=_partition(record, self.counts[record.topic], is_named=record.topic in named))
            for record in given_records(run)
        ]


def given_records(run: CaseRun) -> Iterator[Record]:
    """What a case gives: its inputs, then the records of its INSERT statements."""
    yield from run.inputs
    for records in run.topics.values():
        yield from records


def misplaced(run: CaseRun, records: Iterable[Record], counts: Mapping[str, int]) -> Record | None:
    """The first record of a query that is not where Java's producer would have put it."""
    given = {record.topic for record in run.case.inputs}
    return next(
        (
            record
            for record in records
            if record.key is not None
            and record.topic not in given
            and record.partition != partition_of(_bare_key(run, record.topic, record.key), counts[record.topic])
        ),
        None,
    )


def _declared(run: CaseRun) -> dict[str, int]:
    """The partitions of the topics that a case declares, and those that its records name."""
    declared = {} if run.case.tolerant else dict(run.declared_partitions())
    for record in run.inputs:
        declared[record.topic] = max(declared.get(record.topic, 1), record.partition + 1)
    return declared


def _partition(record: Record, partitions: int, *, is_named: bool) -> int:
    if partitions == 1:
        return 0
    return record.partition if is_named or record.key is None else partition_of(record.key, partitions)


def _bare_key(run: CaseRun, topic: str, key: bytes) -> bytes:
    return key[: len(key) - window_bytes(run.session.sources_of_topic(topic)[0].window)]
