"""The stateless job of the benchmark `kafka` as a user of PySpark writes it, with Spark's own sink.

It runs until it is killed. Several sinks, with commas between them, get a query each.

python -m tests.bench.peers.spark_job SERVERS SOURCE SINK[,SINK…] CHECKPOINT RECORDS_A_BATCH
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.spark.runtime.environment import prepare_environment


def main(servers: str, source: str, sinks: str, folder: str, records: str) -> None:
    """Filter and map one topic into others."""
    prepare_environment()
    builder = (
        SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    )
    spark = builder.config("spark.jars", connector_jars().setting).getOrCreate()
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", records).load()
    value = F.from_json(F.col("value").cast("string"), "CUSTOMER STRING, AMOUNT INT").alias("v")
    kept = rows.select("key", value).where("v.AMOUNT >= 10")
    written = kept.select(
        "key", F.to_json(F.expr("named_struct('CUSTOMER', v.CUSTOMER, 'DOUBLED', v.AMOUNT * 2)")).alias("value")
    )
    for sink in sinks.split(","):
        writer = written.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", sink)
        writer.option("checkpointLocation", f"{folder}/{sink}").start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
