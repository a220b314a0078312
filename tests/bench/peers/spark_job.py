"""Jobs of the benchmark `kafka` as a user of PySpark writes them, with Spark's own sink.

They run until they are killed. `filter` is the whole job; several sinks, with commas between them, get a query each.
`echo` is what no stateful job in Python can do without: it groups the records of its topics by key, passes them to a
stateful processor, which reads no value and keeps no state, and writes OUTPUTS records for each one. `exact` is the same
but for its sink, which writes in transactions of Kafka's client for Python. It does not look whether a batch is done
again, so that no sink that writes exactly once can do less.

python -m tests.bench.peers.spark_job filter|echo|exact SERVERS SOURCE[,SOURCE…] SINK[,SINK…] CHECKPOINT \
RECORDS_A_BATCH OUTPUTS
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.spark.runtime.environment import prepare_environment
from tests.bench.peers.transactions import transactional

_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_TASKS = 2
_GROUPS = 16
"""So many that both tasks have some: Spark's hash puts two groups into one task."""


class Echo(StatefulProcessor):
    """Returns each record `outputs` times; if that is below one, some of them."""

    def __init__(self, outputs: float) -> None:
        self._outputs = outputs

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep no state."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        """Return the records of a chunk."""
        for frame in rows:
            # Rounded up, as the bench waits for all outputs.
            wanted = np.arange(math.ceil(len(frame) * self._outputs)) / self._outputs
            yield frame[["key", "value"]].iloc[np.minimum(wanted.astype(int), len(frame) - 1)]

    def close(self) -> None:
        """Do nothing: no resources are open."""


def filtered(records: DataFrame) -> DataFrame:
    """Filter and map."""
    value = F.from_json(F.col("value").cast("string"), "CUSTOMER STRING, AMOUNT INT").alias("v")
    kept = records.select("key", value).where("v.AMOUNT >= 10")
    return kept.select(
        "key", F.to_json(F.expr("named_struct('CUSTOMER', v.CUSTOMER, 'DOUBLED', v.AMOUNT * 2)")).alias("value")
    )


def echoed(records: DataFrame, outputs: float) -> DataFrame:
    """Pass the records through a stateful processor."""
    grouped = records.select("key", "value", "topic", "timestamp", F.expr(f"pmod(hash(key), {_GROUPS})").alias("part"))
    return grouped.groupBy("part").transformWithStateInPandas(
        Echo(outputs), "key BINARY, value BINARY", "Update", "None"
    )


def main(job: str, servers: str, sources: str, sinks: str, folder: str, records: str, outputs: str) -> None:
    """Start the job."""
    prepare_environment()
    builder = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", str(_TASKS))
        .config("spark.sql.streaming.stateStore.providerClass", _STORE)
    )
    spark = builder.config("spark.jars", connector_jars().setting).getOrCreate()
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", sources)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", records).load()
    written = filtered(rows) if job == "filter" else echoed(rows, float(outputs))
    for sink in sinks.split(","):
        writer = written.writeStream
        if job == "exact":
            writer = writer.foreachBatch(transactional(servers, sink))
        else:
            writer = writer.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", sink)
        writer.outputMode("update").option("checkpointLocation", f"{folder}/{sink}").start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
