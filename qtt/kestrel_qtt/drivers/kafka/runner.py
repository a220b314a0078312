"""Run a group of queries over topics of a broker to the end, in one batch."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.functions import arrow_udf

from kestrel_qtt.drivers.kafka.scratch_topics import AHEAD_MS, ScratchTopics
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.formats.windowed_key import window_bytes
from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.kafka.sink.sink import write_batch
from kestrel_sql.kafka.source.source import PROMPT
from kestrel_sql.spark.io.topics import ARROW_INPUT, WIRE_INPUT
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.topics.records import LogEntry, Record

_SELECTED = (
    "topic", "partition AS part", "offset AS off", "unix_millis(timestamp) AS ts", "key", "value", "headers",
)  # fmt: skip

_names = count()
_udf: Any = arrow_udf

Place = tuple[str, int, int]
"""Topic, partition and offset of a record of the broker."""

_Fed = tuple[int, int, str, int]
"""Query, feed order, topic of the plan, and the intended timestamp (ms)."""


class FusedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One query of a group.

    `topics` gives the broker's name of each topic that the plan names; `feed` says in which order which records are
    fed, by topic of the plan, partition and offset; `tasks` is the number of partitions of its topics.
    """

    topics: Mapping[str, str]
    feed: Sequence[Record]
    tasks: int


class FusedRunner:
    """Runs groups of queries on one Spark session over scratch topics; several threads may run a group each."""

    def __init__(self, topics: ScratchTopics, prefix: str) -> None:
        """Start Spark with its Kafka connector; `prefix` begins the names of the consumer groups.

        Raises:
            EngineError: the connector cannot be downloaded.
        """
        self._topics, self._prefix = topics, prefix
        jars = connector_jars()
        if jars.note:
            sys.stderr.write(f"{jars.note}\n")
        self._spark: SparkSession = open_test_session({"spark.jars": jars.setting})
        shm = Path("/dev/shm")
        self._root = tempfile.mkdtemp(prefix="kestrel-", dir=shm if shm.is_dir() else None)

    def close(self) -> None:
        """Remove the checkpoints of this runner."""
        shutil.rmtree(self._root, ignore_errors=True)

    def run(self, pipeline: Pipeline, queries: Sequence[FusedQuery]) -> list[Output]:
        """Run the queries over what their topics hold; give what is then in the topics that they write, by partition.

        Raises:
            Exception: Spark's own, when the pipeline as a whole does not run.
        """
        outputs = [Output() for _ in queries]
        places = {
            (query.topics[record.topic], record.partition, record.offset): (
                number,
                feed,
                record.topic,
                record.timestamp,
            )
            for number, query in enumerate(queries)
            for feed, record in enumerate(query.feed)
        }
        if places:
            for number, entry in self._run(pipeline, places, queries):
                outputs[number].log.append(entry)
        sinks = {(sink.query, sink.topic) for sink in pipeline.graph.sinks}
        found = self._topics.read({queries[number].topics[topic] for number, topic in sinks})
        for number, topic in sorted(sinks):
            outputs[number].records += [replace(record, topic=topic) for record in found[queries[number].topics[topic]]]
        return outputs

    def _run(
        self, pipeline: Pipeline, places: Mapping[Place, _Fed], queries: Sequence[FusedQuery]
    ) -> list[tuple[int, LogEntry]]:
        config = self._topics.config
        records = (
            self._spark.readStream.format("kafka")
            .options(**PROMPT)
            .options(**config.spark())
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", ",".join(sorted({topic for topic, _, _ in places})))
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .load()
            .selectExpr(*_SELECTED)
            .coalesce(1)
            .mapInArrow(_fed(places), WIRE_INPUT)
        )
        frame = pipeline.frame(records, tasks=[query.tasks for query in queries])
        named = frame.withColumn("topic", _udf(_named([query.topics for query in queries]), "string")("q", "topic"))
        ahead = named.withColumn("timestamp", col("timestamp") + AHEAD_MS)
        sinks = {queries[sink.query].topics[sink.topic]: window_bytes(sink.window) for sink in pipeline.graph.sinks}
        name = f"{self._prefix}-q{next(_names)}"
        entries: list[tuple[int, LogEntry]] = []

        def write(batch: DataFrame, number: int) -> None:
            entries.extend(write_batch(batch, number, query=name, config=config, sinks=sinks).entries)

        checkpoint = f"{self._root}/{name}"
        running = ahead.writeStream.foreachBatch(write).outputMode("update").option("checkpointLocation", checkpoint)
        query = running.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)
            self._topics.remove((), [name])
        return entries


def _fed(places: Mapping[Place, _Fed]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Give each record its query, its feed order and the name that its topic has in the plan."""

    def feed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        for batch in batches:
            for row in batch.to_pylist():
                known = places.get((row["topic"], row["part"], row["off"]))
                if known is not None:
                    rows.append({**row, "q": known[0], "feed": known[1], "topic": known[2], "ts": known[3]})
        rows.sort(key=lambda row: row["feed"])
        yield pa.RecordBatch.from_pylist(rows, schema=ARROW_INPUT)

    return feed


def _named(topics: Sequence[Mapping[str, str]]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def named(queries: pa.Array, names: pa.Array) -> pa.Array:
        pairs = zip(queries.to_pylist(), names.to_pylist(), strict=True)
        return pa.array([None if name is None else topics[query][name] for query, name in pairs], pa.string())

    return named
