"""The floor of stateful jobs: what a job of PySpark does that groups records by key and writes exactly once.

It passes whole Arrow batches to a stateful processor, which keeps no state and returns OUTPUTS records for each one,
and writes in transactions of Kafka's client for Python, as Spark's sink has none. Several topics are read with that
client too, because no source of Spark gives their records in an order; a single one is read by Spark. The floor itself
keeps no order, does not look whether a batch is done again, and neither decodes, nor computes, nor encodes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

_NAME = "bench_floor"
BLOBS = "part INT, rows BINARY"
"""Records of a group of keys, as an Arrow batch of `_RECORDS` without its schema."""

_RECORDS = pa.schema([("key", pa.binary()), ("value", pa.binary())])
_BLOBS = pa.schema([("part", pa.int32()), ("rows", pa.binary())])
_GROUPS, _MESSAGES, _WAIT_S = 16, 10_000, 0.05

Batches = Iterator[pa.RecordBatch]


class FloorSource(DataSource):
    """Topics as blobs; its options are `servers`, `topics`, `partitions` and `records`, the most of a batch."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return _NAME

    def schema(self) -> str:
        """The columns of `BLOBS`."""
        return BLOBS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader."""
        return FloorReader(dict(self.options))


class _Share(InputPartition):
    """The offsets of one partition number."""

    def __init__(self, number: int, ranges: Mapping[str, tuple[int, int]]) -> None:
        super().__init__(number)
        self.number, self.ranges = number, dict(ranges)


class FloorReader(DataSourceStreamReader):
    """Reads the same number of records of each topic-partition in a batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Connect to nothing yet."""
        self._servers, self._topics = options["servers"], options["topics"].split(",")
        self._partitions = int(options["partitions"])
        self._most = int(options["records"]) // (len(self._topics) * self._partitions)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the first offsets."""
        return {f"{topic}-{number}": 0 for topic in self._topics for number in range(self._partitions)}

    def latestOffset(self, start: dict[str, Any], _limit: Any = None) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offsets at which the next batch ends."""
        consumer = _consumer(self._servers)
        found = {}
        for name, at in start.items():
            topic, _, number = name.rpartition("-")
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, int(number)), timeout=20)
            found[name] = min(end, at + self._most)
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a share for each partition number."""
        found = []
        for number in range(self._partitions):
            names = {topic: f"{topic}-{number}" for topic in self._topics}
            ranges = {topic: (start[name], end[name]) for topic, name in names.items() if end[name] > start[name]}
            if ranges:
                found.append(_Share(number, ranges))
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the records of a share."""
        assert isinstance(partition, _Share)
        return _packed(self._records(partition))

    def _records(self, share: _Share) -> Batches:
        consumer = _consumer(self._servers)
        consumer.assign([TopicPartition(topic, share.number, start) for topic, (start, _) in share.ranges.items()])
        left = {topic: end - start for topic, (start, end) in share.ranges.items()}
        while sum(left.values()):
            messages = [
                message
                for message in consumer.consume(min(_MESSAGES, sum(left.values())), timeout=_WAIT_S)
                if message.error() is None and message.offset() < share.ranges[message.topic()][1]
            ]
            for message in messages:
                left[message.topic()] -= 1
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([message.key() for message in messages], pa.binary()),
                    pa.array([message.value() for message in messages], pa.binary()),
                ],
                schema=_RECORDS,
            )


class Echo(StatefulProcessor):
    """Returns the records of each blob `outputs` times; if that is below one, some of them."""

    def __init__(self, outputs: float) -> None:
        self._outputs = outputs

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep no state."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        """Return the records of a group."""
        for row in rows:
            batch = pa.ipc.read_record_batch(pa.py_buffer(bytes(row["rows"])), _RECORDS)
            if self._outputs != 1:
                # Rounded up, as the bench waits for all outputs.
                wanted = (np.arange(math.ceil(batch.num_rows * self._outputs)) / self._outputs).astype(int)
                batch = batch.take(pa.array(np.minimum(wanted, batch.num_rows - 1)))
            yield Row(part=key[0], rows=batch.serialize().to_pybytes())

    def close(self) -> None:
        """Do nothing: no resources are open."""


def _packed(batches: Batches) -> Batches:
    """Pack records into a blob for each group of keys."""
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = batch.column("key").dictionary_encode()
        groups = np.array([crc32(key) % _GROUPS for key in keys.dictionary.to_pylist()])[keys.indices.to_numpy()]
        order = np.argsort(groups, kind="stable")
        rows, found = batch.take(pa.array(order)), groups[order]
        starts = [0, *(np.flatnonzero(np.diff(found)) + 1).tolist(), len(order)]
        blobs = [rows.slice(start, end - start).serialize().to_pybytes() for start, end in pairwise(starts)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(found[starts[:-1]], pa.int32()), pa.array(blobs, pa.binary())], schema=_BLOBS
        )


def _unpacked(blobs: Batches) -> Batches:
    """Return the records of blobs."""
    for batch in blobs:
        for rows in batch.column("rows").to_pylist():
            yield pa.ipc.read_record_batch(pa.py_buffer(rows), _RECORDS)


def start_floor(spark: SparkSession, rows: DataFrame | None, options: Mapping[str, str], folder: str) -> None:
    """Start the job.

    Args:
        spark: the session.
        rows: the records of a single topic as Spark reads them; None for several topics.
        options: those of the source, and `sink` and `outputs`.
        folder: for the checkpoint.
    """
    if rows is None:
        spark.dataSource.register(FloorSource)
        blobs = spark.readStream.format(_NAME).options(**options).load()
    else:
        blobs = rows.select("key", "value").mapInArrow(_packed, BLOBS)
    writer = _echoed(blobs, float(options["outputs"])).writeStream
    writer = writer.foreachBatch(_transactional(options["servers"], options["sink"]))
    writer.outputMode("update").option("checkpointLocation", f"{folder}/{options['sink']}").start()


def echoed(rows: DataFrame, key: str, value: str) -> DataFrame:
    """Rows as they pass a stateful processor that does nothing: two columns of numbers go there and back."""
    texts = (f"CAST(CAST({column} AS STRING) AS BINARY) AS {name}" for name, column in (("key", key), ("value", value)))
    blobs = rows.selectExpr(*texts).mapInArrow(_packed, BLOBS)
    return _echoed(blobs, 1).mapInArrow(_unpacked, "key BINARY, value BINARY")


def _echoed(blobs: DataFrame, outputs: float) -> DataFrame:
    return blobs.groupBy("part").transformWithState(Echo(outputs), BLOBS, "Update", "None")


def _transactional(servers: str, sink: str) -> Callable[[DataFrame, int], None]:
    """What writes a batch of blobs to a topic, with a transaction for each task."""

    def write(batches: Batches) -> Batches:
        producer = _producer(servers, f"{sink}-{os.getpid()}")
        producer.begin_transaction()
        for batch in _unpacked(batches):
            for key, value in zip(*(batch.column(name).to_pylist() for name in ("key", "value")), strict=True):
                while True:
                    try:
                        producer.produce(sink, value, key)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
        producer.commit_transaction()
        yield pa.RecordBatch.from_pydict({"done": [1]})

    def written(batch: DataFrame, _: int) -> None:
        batch.mapInArrow(write, "done BIGINT").collect()

    return written


@cache
def _producer(servers: str, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": name,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 1_000_000,
            "batch.size": 1_000_000,
            "linger.ms": 5,
        }
    )
    producer.init_transactions()
    return producer


@cache
def _consumer(servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "floor",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            # As Kestrel's source has it: a consumer with much ahead pauses for a second by default.
            "queued.min.messages": 10_000,
            "fetch.queue.backoff.ms": 5,
        }
    )
