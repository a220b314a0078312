"""A rehearsal: a session does once what a run does, so that what follows needs not load and compile it."""

from __future__ import annotations

import tempfile
from threading import Event
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import PAGES, Pipeline, build_pipeline
from kestrel_sql.spark.state.checkpoint_path import folder_session

_ROWS = 200
_BATCHES = 3
_LOOK_S = 0.5
_STATEMENTS = """
CREATE STREAM S (K STRING KEY, V BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE T AS SELECT K, COUNT(*) AS N, SUM(V) AS TOTAL FROM S WHERE V >= 0 GROUP BY K;
"""
_KINDS = ("INT", "BIGINT", "STRING", "INT", "BIGINT", "BIGINT", "BINARY")


def rehearse(spark: SparkSession, stop: Event | None = None) -> Exception | None:
    """Run an aggregate over a few batches of made-up records, until `stop`; return why it failed, if it did."""
    value = """to_binary(concat('{"V": ', value, '}'), 'utf-8')"""
    columns = {
        "q": "0",
        "feed": "value",
        "topic": "'s'",
        "part": "0",
        "off": "value",
        "ts": "value",
        "key": "to_binary('k', 'utf-8')",
    }
    texts = [f"CAST({text} AS {kind}) AS {name}" for (name, text), kind in zip(columns.items(), _KINDS, strict=True)]
    own = folder_session(spark)
    rows = own.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS).load()
    records = rows.selectExpr(
        *texts, f"{value} AS value", "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        frame = _pipeline().frame(records, PAGES, {"s": 1})
        writer = frame.writeStream.foreachBatch(_count).outputMode("update").option("checkpointLocation", folder)
        running: Any = writer.start()
        while running.isActive and (running.lastProgress or {}).get("batchId", -1) < _BATCHES - 1:
            if stop is not None and stop.is_set():
                break
            running.awaitTermination(_LOOK_S)
        running.stop()
        failure: Exception | None = running.exception()
    return failure


def _pipeline() -> Pipeline:
    session = Session()
    for statement in session.parse(_STATEMENTS):
        session.execute(statement)
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan, settings=query.config, serde=session.serde())])


def _count(batch: DataFrame, number: int) -> None:
    batch.repartition(2).sortWithinPartitions("ordinal").toArrow()
