"""The transactional sink.

Writes the records of a micro-batch exactly once, whichever process dies in between (docs/adr/0016).

Records are shuffled by topic-partition and sorted by ordinal. Each writer writes the records of some partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pyspark import TaskContext
from pyspark.sql import DataFrame

from kestrel_sql.dataflow.log_entries import log_entry
from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.acls import needed
from kestrel_sql.kafka.client.client_cache import Kept
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import committed_offsets
from kestrel_sql.kafka.sink.distribute import DISTRIBUTED, distribute_batches, merged
from kestrel_sql.kafka.sink.task import ENTRY, FAILED, REPORT, WROTE, Job, ReportRow, Share, entries_in
from kestrel_sql.kafka.sink.transaction import TIMEOUT, Layout, Mark, Writer, retried
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.topics.records import LogEntry

_MAX_GROUPS = 64
_ANSWER_S, _HEARD = 5.0, 20

_owners: dict[str, dict[int, str]] = {}

_groups: Kept[str, _Group] = Kept(_MAX_GROUPS)


class Delivery(StrEnum):
    """The guarantee of `--delivery`."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The result of writing a batch.

    `records` is the number of records of the batch that the broker has now, also those that an earlier attempt wrote.
    `entries` are all entries of the processing log, sorted by ordinal, also those of a replayed batch.
    """

    records: int
    entries: tuple[tuple[int, LogEntry], ...]
    """Pairs of the number of the query and the entry."""


def write_batch(
    frame: DataFrame,
    batch_id: int,
    *,
    query: str,
    config: KafkaConfig,
    delivery: Delivery = Delivery.EXACTLY_ONCE,
    run: int = 0,
    slots: int | None = None,
    sinks: Mapping[str, int] | None = None,
    distributed: Layout | None = None,
    check: Callable[[Sequence[LogEntry]], None] | None = None,
) -> Written:
    """Write the records of a micro-batch to their topics; called from `foreachBatch`.

    The frame is computed once. The records of a topic-partition are written in the order of `ordinal`.

    Args:
        frame: rows with the columns of `WIRE_OUTPUT`, or with those of `DISTRIBUTED` if `distributed` is given.
        batch_id: Spark's number of the batch.
        query: names the consumer group and the transactional ids. It must be unique to a checkpoint and the same after
            a restart.
        config: the broker.
        delivery: the guarantee.
        run: the number of the start from the checkpoint. A writer of an older run is refused once a newer run has
            committed.
        slots: the number of writers; by default that of the cores. It must be the same after a restart: a writer that
            died in a
            transaction is fenced by the next one with its slot.
        sinks: the topics that the query writes (None: any), each with the length in bytes of the window at the end of a
            key.
        distributed: the layout by which the rows are distributed already.
        check: looks at the entries of the processing log before anything is written, and may raise.

    Raises:
        QueryError: the broker refuses a record or does not answer; names topic, partition and offset of the source
            record.
    """
    transactional = delivery is Delivery.EXACTLY_ONCE
    with _answering(config, query):
        layout = _layout(
            config, query, batch_id, run, slots or _parallelism(frame), sinks=sinks, transactional=transactional
        )
    job = Job(config, query, batch_id, run, layout, transactional, owners(query))
    blobs = (
        frame
        if layout.distributes_as(distributed, sinks)
        else frame.mapInArrow(distribute_batches(layout, sinks or {}), DISTRIBUTED)
    )
    return outcome(job, _reported(gathered(blobs, layout), job, check))


def outcome(job: Job, rows: Sequence[ReportRow]) -> Written:
    """Return the outcome of a batch from the rows of its report.

    Raises:
        QueryError: a task could not write its records.
    """
    failed = [row for row in rows if row["what"] == FAILED]
    if failed:
        raise QueryError(
            f"query {job.query}, batch {job.batch}: {failed[0]['message']}",
            hint="the records of this writer were not written",
        )
    wrote = [row for row in rows if row["what"] == WROTE]
    owners(job.query).update((row["slot"], row["worker"]) for row in wrote if row["worker"])
    entries = sorted((row for row in rows if row["what"] == ENTRY), key=lambda row: row["ordinal"])
    return Written(
        records=sum(row["records"] for row in wrote), entries=tuple((row["q"], log_entry(row)) for row in entries)
    )


def _reported(blobs: DataFrame, job: Job, check: Callable[[Sequence[LogEntry]], None] | None) -> list[ReportRow]:
    """The rows of the report on a batch; with `check` it is held back until its entries have been looked at."""
    if check is None:
        return list(blobs.mapInArrow(_task(job), REPORT).toArrow().to_pylist())
    held = blobs.persist()
    try:
        found = held.mapInArrow(lambda batches: entries_in(merged(batches)), REPORT).toArrow().to_pylist()
        check([log_entry(row) for row in sorted(found, key=lambda row: row["ordinal"])])
        return list(held.mapInArrow(_task(job), REPORT).toArrow().to_pylist())
    finally:
        held.unpersist()


def owners(query: str) -> dict[int, str]:
    """The worker that wrote each slot of a query last: its writer may be open still, others of the slot are fenced."""
    return _owners.setdefault(query, {})


def forget(config: KafkaConfig, query: str) -> None:
    """Close what is kept for a query that has ended."""
    _groups.take(config, query)
    _owners.pop(query, None)


def layout_now(config: KafkaConfig, query: str, slots: int) -> Layout:
    """Return the layout of the topics as they are.

    Raises:
        QueryError: the broker does not answer.
    """
    with _answering(config, query):
        return Layout(slots, _partitions(_group(config, query), TIMEOUT))


def fence(config: KafkaConfig, query: str, batch: int, slots: int, sinks: Iterable[str]) -> bool:
    """Close the transactions of a query's writers; return whether one of them has written its share of a batch.

    Raises:
        QueryError: the broker does not answer.
    """
    with _answering(config, query):
        group = _group(config, query)
        written = {topic: count for topic, count in _partitions(group, TIMEOUT).items() if topic in {*sinks}}
        most = max([slots, *(mark.slots for mark in _marks(group, written))])
        for slot in range(most):
            Writer(config, query, slot, frozenset(written), transactional=True)
        return any(mark.number >= batch for mark in _marks(group, written))


@contextmanager
def _answering(config: KafkaConfig, query: str) -> Iterator[None]:
    """Say it of a broker that does not answer, or refuses.

    Raises:
        QueryError: so it was.
    """
    try:
        yield
    except KafkaException as error:
        reason = error.args[0]
        said = "refuses access" if needed(reason) else "does not answer"
        raise QueryError(
            f"query {query}: the broker {config.servers} {said}: {reason.str()}", hint=needed(reason)
        ) from error


def refuse_newer(config: KafkaConfig, query: str, partitions: Mapping[str, int], batch: int, run: int) -> None:
    """Refuse a batch that is not the latest of a query, whose marks stand at these partitions of topics.

    Raises:
        QueryError: another run of the query has written this batch or a later one, or the broker does not answer.
    """
    with _answering(config, query):
        _check_latest(query, _marks(_group(config, query), partitions), batch, run)


def likely_layout(config: KafkaConfig, query: str, slots: int) -> Layout:
    """Return the probable layout of the next batch of a query; without topics if the broker does not answer."""
    try:
        return Layout(slots, _partitions(_group(config, query), _ANSWER_S))
    except KafkaException:
        return Layout(slots, {})


def _parallelism(frame: DataFrame) -> int:
    return max(1, frame.sparkSession.sparkContext.defaultParallelism)


def _layout(
    config: KafkaConfig,
    query: str,
    batch: int,
    run: int,
    slots: int,
    *,
    sinks: Mapping[str, int] | None,
    transactional: bool,
) -> Layout:
    """The layout of a batch: that of its first attempt if a part of it is written already.

    Raises:
        QueryError: another run of the query has written this batch or a later one.
    """
    group = _group(config, query)
    partitions = _partitions(group, TIMEOUT)
    written = {topic: count for topic, count in partitions.items() if sinks is None or topic in sinks}
    marks = _marks(group, written) if transactional else []
    _check_latest(query, marks, batch, run)
    for mark in (mark for mark in marks if mark.number == batch):
        slots = mark.slots or slots
        partitions.update(mark.partitions)
    return Layout(slots, partitions)


def _check_latest(query: str, marks: Iterable[Mark], batch: int, run: int) -> None:
    newer = next((mark for mark in marks if mark.number > batch or mark.run > run), None)
    if newer is not None:
        raise QueryError(
            f"query {query}: run {newer.run} has already written batch {newer.number}, and this is batch {batch} of run"
            f" {run}",
            hint="check whether the query runs elsewhere, or whether the checkpoint was restored from an older copy",
        )


def _partitions(group: _Group, timeout: float) -> dict[str, int]:
    topics = group.consumer.list_topics(timeout=timeout).topics
    return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}


def _marks(group: _Group, partitions: Mapping[str, int]) -> list[Mark]:
    wanted = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    marks = map(Mark.of, retried(lambda: group.committed(wanted)) if wanted else [])
    return [mark for mark in marks if mark is not None]


class _Group(msgspec.Struct, frozen=True):
    """A consumer of the group, and the errors of its connections: a missing ACL on the group is reported only there."""

    consumer: Consumer
    heard: deque[KafkaError]

    def committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the committed offsets of these partitions.

        Raises:
            KafkaException: the broker does not answer in time, or refuses.
        """
        self.heard.clear()
        try:
            return committed_offsets(self.consumer, partitions, _ANSWER_S)
        except KafkaException as error:
            self.consumer.poll(0)
            raise next((KafkaException(each) for each in self.heard if needed(each)), error) from None


def _group(config: KafkaConfig, query: str) -> _Group:
    """The consumer that reads the numbers of committed batches; it never reads a record.

    It is a consumer because librdkafka's admin client aborts the process if the coordinator of the group has moved or
    is not ready. It ignores open transactions, whose writers are fenced only later, when the writers of this batch
    open.
    """

    def opened() -> _Group:
        heard: deque[KafkaError] = deque(maxlen=_HEARD)
        settings = config.client(group_id=query, enable_auto_commit=False, isolation_level="read_uncommitted")
        return _Group(Consumer({**settings, "error_cb": heard.append}), heard)

    return _groups.get(config, query, opened)


def gathered(blobs: DataFrame, layout: Layout) -> DataFrame:
    """Shuffle blobs (`DISTRIBUTED`) to the task of their slot, sorted by their first ordinal as `merged` needs them."""
    first = blobs["first"]
    blobs = blobs.coalesce(1) if layout.slots == 1 else blobs.repartitionById(layout.slots, "slot")
    return blobs.sortWithinPartitions(first)


def _task(job: Job) -> Pass:
    def write(batches: Batches) -> Batches:
        context: Any = TaskContext.get()
        yield from Share(job, context.partitionId()).write(merged(batches))

    return write
