"""The transactional sink: the records of a micro-batch reach their topics once, whatever dies in between (docs/adr/0016).

Records are shuffled by the topic-partition they go to, sorted by place, and written by one writer for each share of the partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.functions import col

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.acls import needed
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.sink.distribute import DISTRIBUTED, distribute_batches, merged
from kestrel_sql.kafka.sink.task import ENTRY, FAILED, REPORT, Job, Share
from kestrel_sql.kafka.sink.transaction import TIMEOUT, Layout, Mark, retried
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.stages.log_entries import log_entry
from kestrel_sql.topics.records import LogEntry

_KEPT_GROUPS = 64
_ANSWER_S, _HEARD = 5.0, 20


class Delivery(StrEnum):
    """What `--delivery` promises."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a batch came to.

    `records` is how many records are now in their topics thanks to this call: a replayed batch that was committed before counts 0.
    `entries` are the rows of the processing log (all of them, in place order), a replayed batch's as well.
    """

    records: int
    entries: tuple[tuple[int, LogEntry], ...]
    """Each with the number of its query, `q`."""


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
    spread: Layout | None = None,
) -> Written:
    """Write the records of a micro-batch to their topics, to be called from `foreachBatch`.

    The frame is computed once. Records of one topic-partition are written in the order of `ordinal`. `query` names the consumer group and the
    transactional ids, so it must be unique to a checkpoint and stay the same over restarts. `run` counts the starts on that checkpoint:
    a writer of an older run is refused as soon as a newer one has committed. `slots` is the number of writers (None: as many as cores). It
    must not change with a restart: a writer that was cut off in mid-transaction is fenced by the one that has its slot now.

    `sinks` are the topics that the query writes (None: any), each with the number of bytes at the end of a key that tell its window.
    The frame has the columns of `WIRE_OUTPUT`, or, where a layout is given by which its rows are `spread` already, of `DISTRIBUTED`.

    Raises:
        QueryError: the broker or a record's size forbids the write; names topic, partition and offset of the source record.
    """
    transactional = delivery is Delivery.EXACTLY_ONCE
    try:
        layout = _layout(
            config, query, batch_id, run, slots or _parallelism(frame), sinks=sinks, transactional=transactional
        )
    except KafkaException as error:
        reason = error.args[0]
        said = "refuses us" if needed(reason) else "does not answer"
        raise QueryError(
            f"query {query}: the broker {config.servers} {said}: {reason.str()}", hint=needed(reason)
        ) from error
    job = Job(config, query, batch_id, run, layout, transactional)
    blobs = (
        frame
        if layout.distributes_as(spread, sinks)
        else frame.mapInArrow(distribute_batches(layout, sinks or {}), DISTRIBUTED)
    )
    rows = _gathered(blobs, layout).mapInArrow(_task(job), REPORT).toArrow().to_pylist()
    failed = [row for row in rows if row["what"] == FAILED]
    if failed:
        raise QueryError(
            f"query {query}, batch {batch_id}: {failed[0]['message']}",
            hint="nothing of this share of the batch was written",
        )
    entries = sorted((row for row in rows if row["what"] == ENTRY), key=lambda row: row["ordinal"])
    return Written(
        records=sum(row["records"] or 0 for row in rows), entries=tuple((row["q"], log_entry(row)) for row in entries)
    )


def likely_layout(config: KafkaConfig, query: str, slots: int) -> Layout:
    """How the next batch of a query will be spread, most likely; of no topics where the broker does not answer."""
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
    """How to spread a batch: as its first attempt did, if a part of it is already written.

    Raises:
        QueryError: the query has gone on elsewhere.
    """
    group = _group(config, query)
    partitions = _partitions(group, TIMEOUT)
    written = {topic: count for topic, count in partitions.items() if sinks is None or topic in sinks}
    marks = _marks(group, written) if transactional else []
    newer = next((mark for mark in marks if mark.batch > batch or mark.run > run), None)
    if newer is not None:
        raise QueryError(
            f"query {query}: run {newer.run} has written batch {newer.batch} already, and this is batch {batch} of run {run}",
            hint="is the query running elsewhere, or its checkpoint older than what it wrote?",
        )
    for mark in (mark for mark in marks if mark.batch == batch):
        slots = mark.slots or slots
        partitions.update(mark.partitions)
    return Layout(slots, partitions)


def _partitions(group: _Group, timeout: float) -> dict[str, int]:
    topics = group.consumer.list_topics(timeout=timeout).topics
    return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}


def _marks(group: _Group, partitions: Mapping[str, int]) -> list[Mark]:
    places = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    committed = retried(lambda: group.committed(places)) if places else []
    found = (Mark.of(place) for place in committed)
    return [mark for mark in found if mark is not None]


@dataclass(frozen=True, slots=True)
class _Group:
    """A consumer, and the errors of its connections: of a group that it may not read it says there only that it may not."""

    consumer: Any
    heard: deque[Any]

    def committed(self, places: list[TopicPartition]) -> list[TopicPartition]:
        """What is committed for these partitions.

        Raises:
            KafkaException: the broker does not answer for a while, or refuses.
        """
        self.heard.clear()
        try:
            found: list[TopicPartition] = self.consumer.committed(places, _ANSWER_S)
        except KafkaException as error:
            self.consumer.poll(0)
            raise next((KafkaException(each) for each in self.heard if needed(each)), error) from None
        return found


@lru_cache(maxsize=_KEPT_GROUPS)
def _group(config: KafkaConfig, query: str) -> _Group:
    """What asks for the numbers of batches; it never reads a record.

    A consumer, for librdkafka's admin client takes the whole process down when a group's coordinator has moved or is not ready. It sees
    past open transactions: who left them open is fenced only by the writers, which come later.
    """
    heard: deque[Any] = deque(maxlen=_HEARD)
    settings = config.client(group_id=query, enable_auto_commit=False, isolation_level="read_uncommitted")
    return _Group(Consumer({**settings, "error_cb": heard.append}), heard)


def _gathered(blobs: DataFrame, layout: Layout) -> DataFrame:
    """Bring the blobs of a slot into its task, in the order of their first places."""
    blobs = blobs.coalesce(1) if layout.slots == 1 else blobs.repartitionById(layout.slots, col("slot"))
    return blobs.sortWithinPartitions("first")


def _task(job: Job) -> Pass:
    def write(batches: Batches) -> Batches:
        context: Any = TaskContext.get()
        yield from Share(job, context.partitionId()).write(merged(batches))

    return write
