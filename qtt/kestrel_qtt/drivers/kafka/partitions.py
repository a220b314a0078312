"""The topics of a case on the broker: their names, numbers of partitions, and the order of their records."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kestrel_qtt.cases.model import OutputRecord
from kestrel_qtt.drivers.case_records import records_of_topic
from kestrel_qtt.drivers.records.run import CaseRun
from kestrel_sql.session.session import PersistentQuery
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record


class OwnTopics(msgspec.Struct):
    """The topics of one case.

    Their names on the broker, by their names in the case, and how many partitions each has.
    """

    prefix: str
    names: dict[str, str] = {}
    counts: dict[str, int] = {}

    @staticmethod
    def of(run: CaseRun, prefix: str) -> OwnTopics:
        """The topics that a planned case gives records for, reads and writes."""
        topics = OwnTopics(prefix)
        fed = [record.topic for record in given_records(run)]
        for topic in (*fed, *(source.topic for source in run.session.catalog.sources.values())):
            topics.add(topic, run.partitions.count(topic))
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


def given_records(run: CaseRun) -> Iterator[Record]:
    """Return the inputs of a case, then the records of its INSERT statements."""
    yield from run.inputs
    for records in run.topics.values():
        yield from records


def misplaced(run: CaseRun, records: Iterable[Record]) -> Record | None:
    """Return the first record of a query that is not in the partition that Java's producer would choose."""
    given = {record.topic for record in run.case.inputs}
    return next(
        (
            record
            for record in records
            if record.key is not None
            and record.topic not in given
            and record.partition != run.partitions.of_output(record)
        ),
        None,
    )


def in_expected_order(run: CaseRun, topic: str, records: Sequence[Record], partitions: int) -> list[Record]:
    """Sort the records of a topic as the case expects them, and keep the order within each partition."""
    queues: dict[int, deque[Record]] = {}
    for record in sorted(records, key=lambda record: (record.partition, record.offset)):
        queues.setdefault(record.partition, deque()).append(record)
    wanted = [expected for expected in run.case.outputs or () if expected.topic == topic]
    ordered = [_next(queues, _partition(run, expected, partitions)) for expected in wanted if any(queues.values())]
    return [*ordered, *_merged(queues)]


def _partition(run: CaseRun, expected: OutputRecord, partitions: int) -> int | None:
    """Return the partition of an expected record: as given, else that of its key without the window."""
    if expected.partition is not None or partitions == 1:
        return expected.partition or 0
    records = records_of_topic(run.session, expected.topic)
    key = None if records is None else records.key_from_json(expected.key)
    return None if key is None else partition_of(key, partitions)


def _next(queues: Mapping[int, deque[Record]], partition: int | None) -> Record:
    """Return the next record of a partition; if it is empty, that of another one, which will not compare equal."""
    queue = queues.get(partition) if partition is not None else None
    return (queue or next(queue for queue in queues.values() if queue)).popleft()


def _merged(queues: Mapping[int, deque[Record]]) -> Iterator[Record]:
    """Return the remaining records, always from the partition whose next record is the oldest."""
    while left := [queue for queue in queues.values() if queue]:
        yield min(left, key=lambda queue: queue[0].timestamp).popleft()
