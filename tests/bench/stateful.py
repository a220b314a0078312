"""Stateful cases of 10 rows: a hand-written streaming aggregation each, and ours fused.

`python -m tests.bench stateful` (environment: CASES=60 ROUNDS=3) prints ms per case and the ratio to the hand-written
queries.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kestrel_qtt.drivers.records.memory_topics import GroupRunner
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from tests.bench.cases import feed
from tests.bench.measure import interleaved, machine, print_per_case

CASES = int(os.environ.get("CASES", "60"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
_FIELDS = "STRUCT<ID: INT, NAME: STRING, PRICE: DOUBLE>"
_RECORD = "value BINARY"
_names = count()


def planned(case: int) -> QueryRun:
    """Our plan of one case; no two are alike."""
    session = Session(config=Config.of({"auto.offset.reset": "earliest"}))
    text = (
        "CREATE STREAM S (ID INT, NAME STRING, PRICE DOUBLE) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');CREATE TABLE"
        f" O AS SELECT ID % {case % 7 + 2} AS G, COUNT(*) AS N, SUM(PRICE + {case}) AS P FROM S GROUP BY ID %"
        f" {case % 7 + 2};"
    )
    for parsed in session.parse(text):
        session.execute(parsed)
    (query,) = session.queries.values()
    return QueryRun(plan=query.plan, settings=query.config, serde=session.serde())


def hand_written(spark: SparkSession, case: int, folder: str) -> list[Any]:
    """One streaming aggregation as a PySpark user would write it, from memory stream to memory table."""
    jvm: Any = spark._jvm
    schema = StructType.fromDDL(_RECORD)
    encoder = jvm.org.apache.spark.sql.Encoders.row(spark._jsparkSession.parseDataType(schema.json()))
    stream = jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream.apply(encoder, spark._jsparkSession)
    data: Any = spark.createDataFrame([(bytearray(record.value or b""),) for record in feed(case)], schema)
    stream.addData(jvm.scala.jdk.javaapi.CollectionConverters.asScala(data._jdf.collectAsList()).toSeq())
    parsed = (
        DataFrame(stream.toDF(), spark)
        .select(F.from_json(F.col("value").cast("string"), _FIELDS).alias("v"))
        .select("v.*")
    )
    grouped = parsed.groupBy((F.col("ID") % (case % 7 + 2)).alias("G"))
    result = grouped.agg(F.count("*").alias("N"), F.sum(F.col("PRICE") + case).alias("P"))
    table = f"hand_{next(_names)}"
    written = result.select(F.to_json(F.struct("G", "N", "P")).alias("value"))
    writer = (
        written.writeStream.format("memory")
        .queryName(table)
        .outputMode("update")
        .option("checkpointLocation", f"{folder}/{table}")
    )
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.table(table).collect()


def main() -> None:
    """Measure and print."""
    spark = open_test_session()
    runner = GroupRunner(spark)
    folder = tempfile.mkdtemp(prefix="kestrel-bench-", dir="/dev/shm")
    runs = [planned(case) for case in range(CASES)]
    feeds = [feed(case) for case in range(CASES)]

    def fused() -> None:
        runner.run_group(build_pipeline(runs), feeds)

    def by_hand() -> None:
        for case in range(CASES):
            hand_written(spark, case, folder)

    seconds = interleaved({"hand-written": by_hand, "fused": fused}, ROUNDS)
    print(f"{CASES} stateful cases of 10 rows, {machine()}, median of {ROUNDS} rounds")
    print_per_case(seconds, CASES)
    runner.close()
    shutil.rmtree(folder, ignore_errors=True)
