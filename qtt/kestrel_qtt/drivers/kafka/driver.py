"""The driver against a real broker: topics of each case's own, inputs really produced, outputs really consumed.

A topic has the partitions that the case declares for it, else one; a sink inherits those of the topics that its query reads. A record
goes to the partition that the case names, else to the one of its key, as Java's producer chooses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from uuid import uuid4

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.driver import DriverError
from kestrel_qtt.drivers.kafka.runner import FusedQuery, FusedRunner
from kestrel_qtt.drivers.kafka.topics import ScratchTopics
from kestrel_qtt.drivers.records.driver import Member, Run, SparkDriver, collect, feed_of
from kestrel_sql.errors import EngineError
from kestrel_sql.formats.windowed_key import window_bytes
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.session.session import PersistentQuery
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.spark.in_memory.runner import Cut, Output
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record


@dataclass(slots=True)
class _Topics:
    """The topics of one case: their names on the broker, by their names in the case, and how many partitions each has."""

    prefix: str
    names: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, topic: str, partitions: int) -> None:
        if topic not in self.names:
            self.names[topic] = f"{self.prefix}-{len(self.names)}"
            self.counts[topic] = partitions


class KafkaDriver(SparkDriver):
    """Runs cases on one Spark session over the topics of a broker."""

    def __init__(self, servers: str) -> None:
        """Connect to the broker and start Spark.

        Raises:
            DriverError: the broker does not answer, or Spark cannot be started.
        """
        super().__init__()
        self._prefix = f"qtt-{uuid4().hex[:8]}"
        self._cases = count()
        self._topics: dict[int, _Topics] = {}
        try:
            self._scratch = ScratchTopics(KafkaConfig.of(servers))
            self._broker = FusedRunner(self._scratch, self._prefix)
        except EngineError as error:
            raise DriverError(error.render()) from error

    def close(self) -> None:
        """Remove what is kept on disk, and close the clients."""
        self._broker.close()
        self._scratch.close()
        super().close()

    def _start(self, runs: Sequence[Run]) -> None:
        """Create the topics of a group and produce what its cases give."""
        planned = [run for run in runs if run.outcome is None]
        for run in planned:
            self._topics[id(run)] = _topics_of(run, f"{self._prefix}-{next(self._cases)}")
        made = [self._topics[id(run)] for run in planned]
        self._scratch.make({topics.names[name]: topics.counts[name] for topics in made for name in topics.names})
        given = [_given(run, topics) for run, topics in zip(planned, made, strict=True)]
        pairs = ((topics, record) for topics, records in zip(made, given, strict=True) for record in records)
        sent = iter(self._scratch.send([replace(record, topic=topics.names[record.topic]) for topics, record in pairs]))
        for run, records in zip(planned, given, strict=True):
            _note_sent(run, records, list(islice(sent, len(records))))

    def _end(self, runs: Sequence[Run]) -> None:
        """Remove the topics of a group."""
        gone = [topics for run in runs if (topics := self._topics.pop(id(run), None)) is not None]
        self._scratch.remove(name for topics in gone for name in topics.names.values())

    def _outputs(self, pipeline: Pipeline, members: Sequence[Member], cut: Cut) -> list[Output]:
        return self._broker.run(pipeline, [self._query(run, query) for run, query in members])

    def _query(self, run: Run, query: PersistentQuery) -> FusedQuery:
        topics = self._topics[id(run)]
        return FusedQuery(
            topics=topics.names, feed=feed_of(run, query), tasks=max(_counts_read(run, query, topics), default=1)
        )

    def _take(self, run: Run, query: PersistentQuery, pipeline: Pipeline, output: Output) -> None:
        # A topic is read whole, with what earlier queries wrote to it.
        for topic in {record.topic for record in output.records}:
            run.topics.pop(topic, None)
        collect(run, query, pipeline, output)
        counts = self._topics[id(run)].counts
        misplaced = next(
            (record for record in output.records if _is_misplaced(run, record, counts[record.topic])), None
        )
        if misplaced is not None and run.outcome is None:
            place = f"topic {misplaced.topic}, partition {misplaced.partition}, offset {misplaced.offset}"
            run.outcome = model.Crashed(
                message=f"{place}: the key {misplaced.key!r} of the record belongs to another partition"
            )
        _restore(run, output, counts)


def _given(run: Run, topics: _Topics) -> list[Record]:
    """What a case gives: its inputs, then the records of its INSERT statements."""
    return [
        _placed(run, topics, record)
        for record in (*run.inputs, *(record for records in run.topics.values() for record in records))
    ]


def _note_sent(run: Run, given: Sequence[Record], sent: Sequence[Record | str]) -> None:
    """Take over the places that the broker gave to a case's records."""
    refused = next((record for record in sent if isinstance(record, str)), None)
    if refused is not None:
        run.outcome = model.Crashed(message=f"the broker refused an input: {refused}")
        return
    there = [
        replace(record, topic=asked.topic)
        for record, asked in zip(sent, given, strict=True)
        if isinstance(record, Record)
    ]
    run.inputs, inserted = there[: len(run.inputs)], there[len(run.inputs) :]
    run.topics = {}
    for record in inserted:
        run.topics.setdefault(record.topic, []).append(record)


def _topics_of(run: Run, prefix: str) -> _Topics:
    declared = _declared(run)
    topics = _Topics(prefix)
    fed = [record.topic for record in (*run.inputs, *(record for records in run.topics.values() for record in records))]
    written = {source.topic: source for source in run.session.catalog.sources.values()}
    for topic in dict.fromkeys((*fed, *(name for name, source in written.items() if source.created_by is None))):
        topics.add(topic, declared.get(topic, 1))
    for query in run.session.queries.values():
        sink = run.session.catalog.sources.get(query.plan.sink or "")
        if sink is not None:
            topics.add(sink.topic, declared.get(sink.topic, next(iter(_counts_read(run, query, topics)), 1)))
    for topic in written:
        topics.add(topic, declared.get(topic, 1))
    return topics


def _declared(run: Run) -> dict[str, int]:
    """The partitions of the topics that a case declares, and those that its records name."""
    declared = {topic.name: topic.partitions for topic in run.case.topics} if not run.case.tolerant else {}
    for record in run.inputs:
        declared[record.topic] = max(declared.get(record.topic, 1), record.partition + 1)
    return declared


def _counts_read(run: Run, query: PersistentQuery, topics: _Topics) -> list[int]:
    """The partitions of the topics that a query reads, the left-most first."""
    sources = run.session.catalog.sources
    return [topics.counts.get(sources[name].topic, 1) for name in query.plan.sources if name in sources]


def _placed(run: Run, topics: _Topics, record: Record) -> Record:
    """A record with its partition: that of the case, else that of its key."""
    partitions = topics.counts[record.topic]
    asked = {given.topic for given in run.case.inputs if given.partition is not None}
    if partitions == 1 or record.topic in asked or record.key is None:
        return replace(record, partition=record.partition if partitions > 1 else 0)
    return replace(record, partition=partition_of(record.key, partitions))


def _is_misplaced(run: Run, record: Record, partitions: int) -> bool:
    """Whether a record that a query wrote is not where Java's producer would have put it."""
    if record.key is None or any(given.topic == record.topic for given in run.case.inputs):
        return False
    window = run.session.sources_of_topic(record.topic)[0].window
    return record.partition != partition_of(record.key[: len(record.key) - window_bytes(window)], partitions)


def _restore(run: Run, output: Output, counts: Mapping[str, int]) -> None:
    """Put the records of each topic into the order in which the case expects them, as far as the order of each partition allows.

    Records keep the places that the broker gave them.
    """
    for topic in {record.topic for record in output.records}:
        queues: dict[int, deque[Record]] = {}
        for record in sorted((r for r in output.records if r.topic == topic), key=lambda r: (r.partition, r.offset)):
            queues.setdefault(record.partition, deque()).append(record)
        wanted = [expected for expected in run.case.outputs or () if expected.topic == topic]
        run.topics[topic] = [
            _next(queues, _partition(run, expected, counts[topic])) for expected in wanted if any(queues.values())
        ]
        run.topics[topic] += _merged(queues)


def _partition(run: Run, expected: model.OutputRecord, partitions: int) -> int | None:
    """Where an expected record belongs: where the case says, else where its key without a window does; None where it has none."""
    if expected.partition is not None or partitions == 1:
        return expected.partition or 0
    source = run.session.sources_of_topic(expected.topic)[0]
    key = SourceRecords.of(source, run.session.serde()).key_from_json(expected.key)
    return None if key is None else partition_of(key, partitions)


def _next(queues: Mapping[int, deque[Record]], partition: int | None) -> Record:
    """The next record of a partition; of another one where that is empty, which will not compare equal."""
    queue = queues.get(partition) if partition is not None else None
    return (queue or next(queue for queue in queues.values() if queue)).popleft()


def _merged(queues: Mapping[int, deque[Record]]) -> Iterator[Record]:
    """What is left, always from the partition whose next record is the oldest."""
    while left := [queue for queue in queues.values() if queue]:
        yield min(left, key=lambda queue: queue[0].timestamp).popleft()
