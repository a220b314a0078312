"""What a query reads: Spark's own Kafka source for one topic, the merged source where topics or partitions meet by time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import to_json
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.source.merged_source import NAME, MergedSource, MergedTopics
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1
from kestrel_sql.plan.steps.streams import StreamGroupByV1, StreamGroupByV2, StreamSelectKeyV1, StreamSelectKeyV2
from kestrel_sql.plan.steps.tables import TableGroupByV1, TableGroupByV2, TableSelectKeyV1


class Reading(StrEnum):
    """How a query's records are read; kept in the manifest, for a checkpoint knows its source."""

    PLAIN = "plain"
    MERGED = "merged"


REKEYED: tuple[type[Step], ...] = (
    StreamGroupByV1,
    StreamGroupByV2,
    StreamSelectKeyV1,
    StreamSelectKeyV2,
    TableGroupByV1,
    TableGroupByV2,
    TableSelectKeyV1,
    FkTableTableJoinV1,
)
"""Steps behind which records of several partitions may meet in one task."""

PROMPT = {"kafka.fetch.max.wait.ms": "20", "kafka.max.poll.records": "10000"}
"""Options of Spark's source, which a user's own replace.

A task that has read its last record asks how far its partition reaches, on the connection on which a fetch still waits for more: with
Kafka's default, each partition of each batch would take half a second. It asks the same after each poll; with Kafka's default of 500
records that is hundreds of times a batch. What a poll gives was fetched before, so that a large one takes no more memory.
"""


def steps(step: Step) -> Iterator[Step]:
    """A step and all below it."""
    yield step
    for upstream in step.upstream:
        yield from steps(upstream)


def reading_of(plan: Step, topics: Sequence[str], partitions: Mapping[str, int], levels: int) -> Reading:
    """How a query has to be read: merged if records of several topics, or of several partitions behind a new key, meet in state."""
    if len(topics) > 1:
        return Reading.MERGED
    mixes = (
        levels > 0
        and max(partitions.values(), default=1) > 1
        and any(isinstance(step, REKEYED) for step in steps(plan))
    )
    return Reading.MERGED if mixes else Reading.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """The records to read: topics with their partitions, where to begin, and how many records (about) make a batch."""

    config: KafkaConfig
    partitions: Mapping[str, int]
    start: Mapping[Position, int]
    limit: int


def open_source(spark: SparkSession, spec: SourceSpec, reading: Reading) -> DataFrame:
    """Give the records as a stream with the columns of `WIRE_INPUT`."""
    if reading is Reading.MERGED:
        spark.dataSource.register(MergedSource)
        topics = MergedTopics(config=spec.config, partitions=spec.partitions, start=spec.start, limit=spec.limit)
        return spark.readStream.format(NAME).options(**topics.to_options()).load()
    return _plain(spark, spec)


def _plain(spark: SparkSession, spec: SourceSpec) -> DataFrame:
    """Spark's source: a Spark partition for each topic-partition; the offset is the place, as nothing of two partitions ever meets."""
    reader = (
        spark.readStream.format("kafka")
        .options(**PROMPT)
        .options(**spec.config.spark())
        .option("kafka.isolation.level", "read_committed")
        .option("assign", _assignment(spec))
        .option("startingOffsets", to_json(spec.start))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", spec.limit)
    )
    return reader.load().selectExpr(
        "CAST(0 AS INT) AS q",
        "offset AS feed",
        "topic",
        "partition AS part",
        "offset AS off",
        "unix_millis(timestamp) AS ts",
        "key",
        "value",
        # Spark's way to Arrow takes time that grows with the square of NULL arrays in a row.
        "coalesce(headers, CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)) AS headers",
    )


def _assignment(spec: SourceSpec) -> str:
    topics = ", ".join(f'"{topic}": {list(range(count))}' for topic, count in spec.partitions.items())
    return f"{{{topics}}}"
