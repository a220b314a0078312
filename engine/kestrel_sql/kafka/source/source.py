"""Opens the source of a query.

Spark's own Kafka source, or the merged source if topics or partitions are merged by timestamp.
"""

from __future__ import annotations

from collections.abc import Collection
from threading import Lock

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.functions import sum as total

from kestrel_sql.kafka.client.offsets import to_json
from kestrel_sql.kafka.source.batch_counts import READ
from kestrel_sql.kafka.source.merged_source import RECORDS, SourceSpec, merged_source
from kestrel_sql.kafka.source.reading import Reading
from kestrel_sql.spark.io.arrow_passes import Batches, Pass, Passes
from kestrel_sql.spark.io.topics import wire_input

_registering = Lock()
"""Held until a frame has its source: Spark keeps what is registered for ever, so that all have one name."""

PROMPT = {"kafka.fetch.max.wait.ms": "20", "kafka.max.poll.records": "10000"}
"""Options of Spark's source; those of the user override them.

After its last record a task asks for the end of its partition, on a connection where a fetch still waits for records.
With Kafka's default wait, each partition of each batch takes 500 ms. The task also asks after each poll, which is
hundreds of times a batch with Kafka's default of 500 records. A large poll takes no more memory, because its records
were fetched before.
"""


def open_source(spark: SparkSession, spec: SourceSpec, reading: Reading) -> Passes:
    """Return the records as a stream with the columns of `WIRE_INPUT`."""
    if reading is Reading.MERGED:
        return Passes(_MergedRecords(spark, spec))
    return completed(spark_source(spark, spec), spec.partitions)


class _MergedRecords(msgspec.Struct, frozen=True):
    """The merged records of several topics, which the source itself passes to a function."""

    spark: SparkSession
    spec: SourceSpec

    def mapInArrow(self, function: Pass, schema: str) -> DataFrame:  # noqa: N802 - Spark's name
        """Return what a function makes of the records, as `DataFrame.mapInArrow` does."""
        source = merged_source(self.spec, function, schema)
        with _registering:
            self.spark.dataSource.register(source)
            made = self.spark.readStream.format(source.name()).load()
        return made.observe(READ, total(RECORDS).alias(READ)).where(col(RECORDS).isNull()).drop(RECORDS)


def spark_source(spark: SparkSession, spec: SourceSpec) -> DataFrame:
    """Return Spark's source, with a Spark partition for each topic-partition."""
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
    return reader.load()


def completed(records: DataFrame, topics: Collection[str]) -> Passes:
    """Return the records of a topic that Spark's source gives with the columns of `WIRE_INPUT`.

    Only the columns that differ by record go to Python: each of the others would cost Spark more than adding it here
    does for all. `feed` is the offset, because partitions are independent.
    """
    (topic,) = topics

    def complete(batches: Batches) -> Batches:
        for batch in batches:
            columns = {
                "q": pa.array(np.zeros(batch.num_rows, np.int32)),
                "feed": batch.column("off"),
                "topic": pa.repeat(pa.scalar(topic), batch.num_rows),
            }
            yield wire_input(batch, columns)

    found = records.selectExpr(
        "partition AS part",
        "offset AS off",
        "unix_millis(timestamp) AS ts",
        "key",
        "value",
        # Spark's conversion to Arrow is quadratic in the number of consecutive NULL arrays.
        "coalesce(headers, CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)) AS headers",
    )
    return Passes(found).through(complete)


def _assignment(spec: SourceSpec) -> str:
    topics = ", ".join(f'"{topic}": {list(range(count))}' for topic, count in spec.partitions.items())
    return f"{{{topics}}}"
