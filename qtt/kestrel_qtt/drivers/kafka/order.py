"""Order the records of several partitions as the case expects them; Kafka orders them only within a partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from kestrel_qtt.cases.model import OutputRecord
from kestrel_qtt.drivers.case_records import records_of_topic
from kestrel_qtt.drivers.records.run import CaseRun
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record


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
