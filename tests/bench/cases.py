"""Stateless cases of 10 rows three ways: a hand-written streaming query each, ours one by one, ours fused.

`python -m tests.bench cases` (environment: CASES=60 ROUNDS=3) prints ms per case and the ratios to the hand-written
queries.
"""

from __future__ import annotations

import json
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
from kestrel_sql.topics.records import Record
from tests.bench.measure import interleaved, machine, print_per_case

CASES = int(os.environ.get("CASES", "60"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
ROWS = 10
_FIELDS = "STRUCT<ID: INT, NAME: STRING, PRICE: DOUBLE>"
_RECORD = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
_names = count()


def rows(case: int) -> list[dict[str, Any]]:
    """The values of one case."""
    return [{"ID": row, "NAME": f"item {case}-{row}", "PRICE": row * 1.5 + case} for row in range(ROWS)]


def statement(case: int) -> str:
    """The query of one case; no two are alike."""
    return (
        "CREATE STREAM S (ID INT, NAME STRING, PRICE DOUBLE) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');CREATE"
        f" STREAM O AS SELECT ID + {case} AS A, UCASE(NAME) AS B, PRICE * {case + 1} AS C FROM S WHERE ID > {case % 5};"
    )


def planned(case: int) -> QueryRun:
    """Our plan of one case."""
    session = Session(config=Config.of({"auto.offset.reset": "earliest"}))
    for parsed in session.parse(statement(case)):
        session.execute(parsed)
    (query,) = session.queries.values()
    return QueryRun(plan=query.plan, settings=query.config, serde=session.serde())


def feed(case: int) -> list[Record]:
    """The records of one case as bytes."""
    return [
        Record(topic="in", key=None, value=json.dumps(row).encode(), timestamp=0, offset=at)
        for at, row in enumerate(rows(case))
    ]


def hand_written(spark: SparkSession, case: int, folder: str) -> list[Any]:
    """One streaming query as a PySpark user would write it, from memory stream to memory table."""
    jvm: Any = spark._jvm
    schema = StructType.fromDDL(_RECORD)
    encoder = jvm.org.apache.spark.sql.Encoders.row(spark._jsparkSession.parseDataType(schema.json()))
    stream = jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream.apply(encoder, spark._jsparkSession)
    data: Any = spark.createDataFrame(
        [(None, bytearray(r.value or b""), r.topic, 0, r.offset, None) for r in feed(case)], schema
    )
    stream.addData(jvm.scala.jdk.javaapi.CollectionConverters.asScala(data._jdf.collectAsList()).toSeq())
    parsed = (
        DataFrame(stream.toDF(), spark)
        .select(F.from_json(F.col("value").cast("string"), _FIELDS).alias("v"))
        .select("v.*")
    )
    result = parsed.where(F.col("ID") > case % 5).select(
        (F.col("ID") + case).alias("A"), F.upper("NAME").alias("B"), (F.col("PRICE") * (case + 1)).alias("C")
    )
    table = f"hand_{next(_names)}"
    written = result.select(F.to_json(F.struct("A", "B", "C")).alias("value"))
    writer = written.writeStream.format("memory").queryName(table).option("checkpointLocation", f"{folder}/{table}")
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.table(table).collect()


def main() -> None:
    """Measure and print."""
    spark = open_test_session()
    runner = GroupRunner(spark)
    folder = tempfile.mkdtemp(prefix="kestrel-bench-", dir="/dev/shm")
    runs = [planned(case) for case in range(CASES)]
    feeds = [feed(case) for case in range(CASES)]

    def each() -> None:
        for run, records in zip(runs, feeds, strict=True):
            runner.run_group(build_pipeline([run]), [records])

    def fused() -> None:
        runner.run_group(build_pipeline(runs), feeds)

    def by_hand() -> None:
        for case in range(CASES):
            hand_written(spark, case, folder)

    seconds = interleaved({"hand-written": by_hand, "one by one": each, "fused": fused}, ROUNDS)
    print(f"{CASES} stateless cases of {ROWS} rows, {machine()}, median of {ROUNDS} rounds")
    print_per_case(seconds, CASES)
    runner.close()
    shutil.rmtree(folder, ignore_errors=True)
