"""The transactional sink: the records of a micro-batch reach their topics once, whatever dies in between (docs/adr/0016).

Records are shuffled by the topic-partition they go to, sorted by place, and written by one writer for each share of the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any
from zlib import crc32

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, element_at
from pyspark.sql.pandas.functions import arrow_udf

from engine.errors import QueryError
from engine.kafka.config import KafkaConfig
from engine.kafka.partitioning import bare_keys, partitions_of
from engine.kafka.share import ENTRY, FAILED, REPORT, Job, Share
from engine.kafka.transaction import TIMEOUT, Layout, Mark, retried
from engine.topics.records import LogEntry

_udf: Any = arrow_udf

Batches = Iterator[pa.RecordBatch]

_KEPT_GROUPS = 64


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
    sinks: Mapping[str, int] | None = None,
) -> Written:
    """Write the records of a micro-batch (columns of `WIRE_OUTPUT`) to their topics, to be called from `foreachBatch`.

    The frame is computed once. Records of one topic-partition are written in the order of `place`. `query` names the consumer group and the
    transactional ids, so it must be unique to a checkpoint and stay the same over restarts. `run` counts the starts on that checkpoint:
    a writer of an older run is refused as soon as a newer one has committed.

    `sinks` are the topics that the query writes (None: any), each with the number of bytes at the end of a key that tell its window.

    Raises:
        QueryError: the broker or a record's size forbids the write; names topic, partition and offset of the source record.
    """
    transactional = delivery is Delivery.EXACTLY_ONCE
    try:
        layout = _layout(config, query, batch_id, run, _parallelism(frame), sinks=sinks, transactional=transactional)
    except KafkaException as error:
        raise QueryError(f"query {query}: the broker {config.servers} does not answer: {error.args[0].str()}") from error
    job = Job(config, query, batch_id, run, layout, transactional)
    rows = _spread(frame, layout, sinks or {}).mapInArrow(_task(job), REPORT).toArrow().to_pylist()
    failed = [row for row in rows if row["what"] == FAILED]
    if failed:
        raise QueryError(f"query {query}, batch {batch_id}: {failed[0]['message']}", hint="nothing of this share of the batch was written")
    entries = sorted((row for row in rows if row["what"] == ENTRY), key=lambda row: row["place"])
    return Written(records=sum(row["records"] or 0 for row in rows), entries=tuple((row["q"], _entry(row)) for row in entries))


def _parallelism(frame: DataFrame) -> int:
    return max(1, frame.sparkSession.sparkContext.defaultParallelism)


def _layout(
    config: KafkaConfig, query: str, batch: int, run: int, slots: int, *, sinks: Mapping[str, int] | None, transactional: bool
) -> Layout:
    """How to spread a batch: as its first attempt did, if a part of it is already written.

    Raises:
        QueryError: the query has gone on elsewhere.
    """
    group = _group(config.servers, tuple(sorted(config.properties.items())), query)
    topics = group.list_topics(timeout=TIMEOUT).topics
    partitions = {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}
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


def _marks(group: Any, partitions: Mapping[str, int]) -> list[Mark]:
    places = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    committed = retried(lambda: group.committed(places, TIMEOUT)) if places else []
    found = (Mark.of(place) for place in committed)
    return [mark for mark in found if mark is not None]


@lru_cache(maxsize=_KEPT_GROUPS)
def _group(servers: str, properties: tuple[tuple[str, str], ...], query: str) -> Any:
    """What asks for the numbers of batches; it never reads a record.

    A consumer, for librdkafka's admin client takes the whole process down when a group's coordinator has moved or is not ready. It sees
    past open transactions: who left them open is fenced only by the writers, which come later.
    """
    config = KafkaConfig(servers=servers, properties=dict(properties))
    return Consumer(config.client(group_id=query, enable_auto_commit=False, isolation_level="read_uncommitted"))


def _spread(frame: DataFrame, layout: Layout, tails: Mapping[str, int]) -> DataFrame:
    """Give each record its partition, bring the records of a slot into its task, and put them in place order."""
    partition = _udf(_partitions(layout.partitions, tails), "int")
    rows = frame.withColumn("partition", partition(col("topic"), col("key"), element_at(col("place"), 1)))
    if layout.slots == 1:
        return rows.coalesce(1).sortWithinPartitions("place")
    slot = _udf(_slots(layout.slots), "int")
    return rows.repartitionById(layout.slots, slot(col("topic"), col("partition"))).sortWithinPartitions("place")


def _partitions(counts: Mapping[str, int], tails: Mapping[str, int]) -> Callable[[pa.Array, pa.Array, pa.Array], pa.Array]:
    def partitions(topics: pa.Array, keys: pa.Array, feeds: pa.Array) -> pa.Array:
        return partitions_of(topics, bare_keys(topics, keys, tails), feeds, counts)

    return partitions


def _slots(slots: int) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """The writer of each topic-partition; neighbours among the partitions of a topic have different ones."""

    def slot(topics: pa.Array, partitions: pa.Array) -> pa.Array:
        first = {topic: 0 if topic is None else crc32(topic.encode()) for topic in topics.unique().to_pylist()}
        pairs = zip(topics.to_pylist(), partitions.to_pylist(), strict=True)
        return pa.array([(first[topic] + (partition or 0)) % slots for topic, partition in pairs], pa.int32())

    return slot


def _task(job: Job) -> Callable[[Batches], Batches]:
    def write(batches: Batches) -> Batches:
        context: Any = TaskContext.get()
        yield from Share(job, context.partitionId()).write(batches)

    return write


def _entry(row: Mapping[str, Any]) -> LogEntry:
    return LogEntry(
        kind=row["kind"],
        logger=row["logger"],
        message=row["message"],
        topic=row["src_topic"],
        partition=row["src_part"],
        offset=row["src_off"],
    )
