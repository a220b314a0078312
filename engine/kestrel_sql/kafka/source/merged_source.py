"""A Spark source that merges several topics by timestamp, with one task for each partition number (ADR 17)."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kestrel_sql.kafka.client.client_cache import Kept
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets, from_members, to_members
from kestrel_sql.kafka.client.positions import Offsets, Position
from kestrel_sql.kafka.source.look_ahead import BrokerAhead
from kestrel_sql.kafka.source.merge import Cutter, FeedOrder, TimeMerge
from kestrel_sql.kafka.source.ranges import (
    AT_ONCE,
    LAST_OFFSET,
    MESSAGE,
    PATIENCE_S,
    WAIT_S,
    Range,
    RangeRead,
    by_position,
    open_consumer,
    silence,
    times_of,
)
from kestrel_sql.kafka.source.whole_batches import whole_ends
from kestrel_sql.spark.envelope import HEADERS
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.columns import widened
from kestrel_sql.spark.io.topics import ARROW_INPUT, empty_lists, wire_input
from kestrel_sql.spark.releases import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

NAME = "kestrel_merged"

RECORDS = "records"
"""The column that the source adds: the last row of a task has the number of records that it read, and nothing else."""

_TOGETHER_S = 0.05
"""The time (s) in which records that come are taken together."""

_CONSUMED = pa.schema([each for each in ARROW_INPUT if each.name not in ("q", "feed")])
"""What a consumer says of a record."""

_consumers: Kept[str, Consumer] = Kept(1)
"""The consumer of this worker process."""


class SourceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The records that a query reads.

    Attributes:
        config: the broker.
        partitions: the topics with their numbers of partitions. In a merge, the records of an earlier topic come first
            among equal
            timestamps.
        start: the first offset of each partition.
        limit: the approximate number of records of a batch.
        batches: the folder where queries of this run tell of their batches; None without such.
    """

    config: KafkaConfig
    partitions: Mapping[str, int]
    start: Mapping[Position, int]
    limit: int
    batches: Path | None = None

    @property
    def positions(self) -> tuple[Position, ...]:
        """All partitions of all topics."""
        return tuple((topic, partition) for topic, count in self.partitions.items() for partition in range(count))


class MergedSource(DataSource):
    """The source in Spark's API; `merged_source` makes one for each query."""

    spec: ClassVar[SourceSpec]
    function: ClassVar[Pass]
    columns: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> str:
        """The columns of the results, and `RECORDS`."""
        return f"{RECORDS} BIGINT, {self.columns}"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader."""
        return MergedReader(self.spec, type(self).function, to_arrow_schema(schema))


def merged_source(spec: SourceSpec, function: Pass, schema: str) -> type[MergedSource]:
    """Return a source that reads records, and passes on what a function makes of them.

    Spark runs a source and a `mapInArrow` in two processes; this saves one of them, and the way of all records
    through the JVM.

    Args:
        spec: the records.
        function: gets the merged records of a task, as rows of `WIRE_INPUT`.
        schema: the Spark schema of its results.
    """
    members = {
        "spec": spec,
        "function": staticmethod(function),
        "columns": schema,
    }
    return type("PassingSource", (MergedSource,), members)


class _Task(InputPartition):
    """The ranges of one partition number."""

    def __init__(self, number: int, tasks: int, ranges: Sequence[Range]) -> None:
        super().__init__(number)
        self.number = number
        self.tasks = tasks
        self.ranges = tuple(ranges)


class MergedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Computes the ends of batches, and reads the records of their tasks."""

    def __init__(self, topics: SourceSpec, function: Pass, schema: pa.Schema) -> None:
        """Set the topics to read, without connecting; see `merged_source`."""
        self._topics = topics
        self._function, self._schema = function, schema
        self._offsets: BrokerOffsets | None = None
        self._target: dict[Position, int] | None = None
        self._cutter = Cutter(BrokerAhead(topics.config))

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        """Return the offsets from which a query without a checkpoint starts."""
        return to_members(self._topics.start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit for the number of records of a batch; many equal timestamps may exceed it."""
        return ReadMaxRows(self._topics.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the offsets at which `latestOffset` ends."""
        self._target = self._broker().ends(self._topics.positions)

    def latestOffset(self, start: dict[str, dict[str, int]], limit: ReadLimit) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        """Return the offsets at which the next batch ends."""
        begin = from_members(start)
        ends = self._target or self._ends()
        ends = {position: max(end, begin[position]) for position, end in ends.items()}
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else sum(ends.values()) + 1
        return to_members(self._cutter.cut(begin, ends, rows))

    def partitions(self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> Sequence[InputPartition]:
        """Return a task for each partition number with records in the batch."""
        begin, finish = from_members(start), from_members(end)
        count = max(self._topics.partitions.values())
        tasks = []
        for number in range(count):
            ranges = [
                Range(topic, number, begin[topic, number], finish[topic, number])
                for topic, partitions in self._topics.partitions.items()
                if number < partitions and finish[topic, number] > begin[topic, number]
            ]
            if ranges:
                tasks.append(_Task(number, count, ranges))
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return what the function makes of the merged records of a task, and their number, as Arrow batches."""
        assert isinstance(partition, _Task)  # noqa: S101 - `partitions` returns no other
        read = 0

        def counted() -> Batches:
            nonlocal read
            for batch in _batches(self._topics.config, partition):
                read += batch.num_rows
                yield batch

        for made in self._function(counted()):
            yield widened(made, self._schema)
        yield widened(pa.RecordBatch.from_pydict({RECORDS: pa.array([read])}), self._schema)

    def _ends(self) -> Mapping[Position, int]:
        topics = self._topics

        def ask() -> Mapping[Position, int]:
            return self._broker().ends(topics.positions)

        return ask() if topics.batches is None else whole_ends(topics.batches, topics.partitions, ask)

    def _broker(self) -> BrokerOffsets:
        if self._offsets is None:
            self._offsets = BrokerOffsets(self._topics.config)
        return self._offsets


def _batches(config: KafkaConfig, task: _Task) -> Batches:
    order = FeedOrder(task.number, task.tasks)
    for rows in read_merged(config, task.ranges):
        yield numbered(rows, pa.array(order.numbers(rows.column("ts").to_numpy())))


def numbered(rows: pa.RecordBatch, feeds: pa.Array) -> pa.RecordBatch:
    """Return the records of one query as rows of `WIRE_INPUT`; `feeds` are their numbers."""
    return wire_input(rows, {"q": pa.array(np.zeros(rows.num_rows, np.int32)), "feed": feeds})


def read_merged(config: KafkaConfig, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """Return the records of ranges in the order of their timestamps, as rows of `WIRE_INPUT` without numbers.

    Raises:
        QueryError: the broker does not let a partition be read, or sends nothing.
    """
    merge = TimeMerge(len(ranges))
    reads = {each.position: (number, RangeRead(each)) for number, each in enumerate(ranges)}
    consumer = _consumer(config)
    consumer.assign([TopicPartition(*position, read.reach) for position, (_, read) in reads.items()])
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not merge.is_done:
            # With as many messages as are left, it returns at once when they are there.
            left = sum(read.left for _, read in reads.values())
            messages = consumer.consume(min(AT_ONCE, left), timeout=WAIT_S)
            for position, own in by_position(messages).items():
                if position in reads:
                    number, read = reads[position]
                    deadline = time.monotonic() + PATIENCE_S
                    records, offsets = read.records(own, config)
                    inside = bisect_left(offsets, read.wanted.end)
                    merge.offer(number, _rows(read.wanted, records[:inside], offsets[:inside]))
                    if not read.left:
                        merge.end(number)
                        # Or else the records behind the range would come, too.
                        consumer.incremental_unassign([TopicPartition(*position)])
                        del reads[position]
            rows = merge.take()
            if rows is not None:
                yield rows
            if not messages and time.monotonic() > deadline:
                raise silence(config, ranges)
    finally:
        consumer.unassign()


def follow(
    config: KafkaConfig, starts: Offsets, until: float, most: int
) -> Iterator[tuple[Sequence[Range], pa.RecordBatch]]:
    """Return the records behind offsets as they come, until a moment of `time.monotonic`: their ranges, and themselves.

    What comes within `_TOGETHER_S`, and `most` records at most, is merged like the records of `read_merged`.

    Raises:
        QueryError: the broker does not let a partition be read.
    """
    reads = {position: RangeRead(Range(*position, start, LAST_OFFSET)) for position, start in starts.items()}
    begun = dict(starts)
    consumer = _consumer(config)
    consumer.assign([TopicPartition(*position, start) for position, start in starts.items()])
    try:
        while (left := until - time.monotonic()) > 0:
            found = by_position(consumer.consume(min(AT_ONCE, most), timeout=min(_TOGETHER_S, left)))
            merge = TimeMerge(len(reads))
            for number, (position, read) in enumerate(reads.items()):
                merge.offer(number, _rows(read.wanted, *read.records(found.get(position, ()), config)))
                merge.end(number)
            rows = merge.take()
            if rows is not None:
                now = {position: read.reach for position, read in reads.items()}
                yield [Range(*place, begun[place], end) for place, end in now.items() if end > begun[place]], rows
                begun = now
    finally:
        consumer.unassign()


def _rows(read: Range, records: Sequence[Message], offsets: Sequence[int]) -> pa.RecordBatch:
    """Records of a range as rows of `_CONSUMED`."""
    headers = [*map(MESSAGE.headers, records)]
    columns: dict[str, Any] = {
        "topic": pa.repeat(pa.scalar(read.topic), len(records)),
        "part": pa.array(np.full(len(records), read.partition, np.int32)),
        "off": offsets,
        "ts": times_of(records),
        "key": [*map(MESSAGE.key, records)],
        "value": [*map(MESSAGE.value, records)],
        "headers": [[{"key": key, "value": value} for key, value in each or ()] for each in headers]
        if any(headers)
        else empty_lists(len(records), HEADERS),
    }
    given = [(columns[field.name], field.type) for field in _CONSUMED]
    arrays = [values if isinstance(values, pa.Array) else pa.array(values, kind) for values, kind in given]
    return pa.RecordBatch.from_arrays(arrays, schema=_CONSUMED)


def _consumer(config: KafkaConfig) -> Consumer:
    return _consumers.get(config, "", lambda: open_consumer(config))
