"""Jobs of the benchmark `kafka` in PySpark; they run until they are killed.

`filter` is the job as a user writes it, with Spark's own sink; several sinks, with commas between them, get a query
each. `floor` is what no stateful job in Python can do without (tests/bench/peers/floor.py), in the session of a run of
Kestrel. The environment variable HEAP is the heap of the JVM, such as 2g. When all queries have started, the job prints
the time (Unix, s).

python -m tests.bench.peers.spark_job filter|floor SERVERS SOURCE[,SOURCE…] SINK[,SINK…] CHECKPOINT RECORDS_A_BATCH \
OUTPUTS
"""

from __future__ import annotations

import os
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.kafka.run.broker_session import SESSION
from kestrel_sql.spark.runtime.environment import prepare_environment
from kestrel_sql.spark.runtime.session import open_session
from tests.bench.peers.floor import start_floor

_PARTITIONS = 2
_TASKS = {"spark.sql.shuffle.partitions": str(_PARTITIONS)}


def filtered(records: DataFrame) -> DataFrame:
    """Filter and map."""
    value = F.from_json(F.col("value").cast("string"), "CUSTOMER STRING, AMOUNT INT").alias("v")
    kept = records.select("key", value).where("v.AMOUNT >= 10")
    return kept.select(
        "key", F.to_json(F.expr("named_struct('CUSTOMER', v.CUSTOMER, 'DOUBLED', v.AMOUNT * 2)")).alias("value")
    )


def main(job: str, servers: str, sources: str, sinks: str, folder: str, records: str, outputs: str) -> None:
    """Start the job."""
    spark = _session(job)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", sources)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", records)
    if job == "floor":
        options = {"servers": servers, "topics": sources, "partitions": str(_PARTITIONS), "records": records}
        options |= {"sink": sinks, "outputs": outputs}
        start_floor(spark, None if "," in sources else reader.load(), options, folder)
    else:
        written = filtered(reader.load())
        for sink in sinks.split(","):
            writer = written.writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
            writer.option("topic", sink).option("checkpointLocation", f"{folder}/{sink}").start()
    print(time.time(), flush=True)
    spark.streams.awaitAnyTermination()


def _session(job: str) -> SparkSession:
    given = {**_TASKS, "spark.jars": connector_jars().setting, "spark.driver.memory": os.environ["HEAP"]}
    if job == "floor":
        return open_session("local[*]", {**SESSION, **given})
    prepare_environment()
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    for name, value in {"spark.log.level": "OFF", **given}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main(*sys.argv[1:])
