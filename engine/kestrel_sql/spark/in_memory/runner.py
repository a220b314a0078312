"""Runs pipelines over memory streams: records in, records and log entries out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from kestrel_sql.dataflow.log_entries import log_entry
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.spark.io.topics import ARROW_INPUT, WIRE_INPUT
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.runtime.callback import BatchCallback
from kestrel_sql.spark.runtime.jvm import Java
from kestrel_sql.topics.records import Record, members_of

_names = count()

Row = dict[str, Any]
"""A row of `WIRE_INPUT` or `WIRE_OUTPUT`, by column name."""


class MemoryRunner:
    """Runs pipelines over memory streams in one Spark session, with checkpoints in a temporary folder."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._callbacks: dict[str, BatchCallback] = {}
        jvm: Any = spark._jvm
        self._jvm: Java = jvm
        self._schema = StructType.fromDDL(WIRE_INPUT)
        self._encoder = jvm.org.apache.spark.sql.Encoders.row(spark._jsparkSession.parseDataType(self._schema.json()))
        shm = Path("/dev/shm")
        self._root = Path(tempfile.mkdtemp(prefix="kestrel-", dir=shm if shm.is_dir() else None))

    def close(self) -> None:
        """Remove the checkpoints of this runner."""
        shutil.rmtree(self._root, ignore_errors=True)

    def run(self, pipeline: Pipeline, records: Sequence[Record]) -> Output:
        """Run the only query of a pipeline over records, in this order.

        Raises:
            Exception: Spark's error if the pipeline fails.
        """
        stream, name = self.stream(), self.name()
        self.feed(stream, [input_row(0, at, record) for at, record in enumerate(records)])
        try:
            rows = self.written(pipeline.frame(self.read(stream)), name)
        finally:
            shutil.rmtree(self.folder(name), ignore_errors=True)
        return outputs_of(rows, 1)[0]

    def name(self) -> str:
        """Return a new name for a query and its checkpoint."""
        return f"kestrel_{next(_names)}"

    def folder(self, name: str) -> Path:
        """Return the folder of the checkpoint `name`."""
        return self._root / name

    def stream(self) -> Java:
        """Make a memory stream of rows of `WIRE_INPUT`."""
        return self._jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream.apply(
            self._encoder, self.spark._jsparkSession
        )

    def read(self, stream: Java) -> DataFrame:
        """Return the rows of a memory stream."""
        return DataFrame(stream.toDF(), self.spark)

    def feed(self, stream: Java, rows: Sequence[Row]) -> None:
        """Add rows to a memory stream as one offset."""
        stream.addData(self.in_java(rows))

    def in_java(self, rows: Sequence[Row]) -> Java:
        """Return rows as memory streams take them, in one call: Arrow to the JVM, and there a list of rows."""
        table = pa.Table.from_pylist(list(rows), schema=ARROW_INPUT)
        frame: Any = self.spark.createDataFrame(table, self._schema)  # type: ignore[call-overload]
        collected = frame._jdf.collectAsList()
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(collected).toSeq()

    def written(self, frame: DataFrame, name: str) -> list[Row]:
        """Run a new streaming query over the rows of its stream, and return its output."""
        writer = frame.writeStream.format("memory").queryName(name).outputMode("update")
        finish(writer.option("checkpointLocation", str(self.folder(name))).trigger(availableNow=True).start())
        rows: list[Row] = self.spark.table(name).toArrow().to_pylist()
        self.spark.catalog.dropTempView(name)
        return rows

    def collecting(self, frame: DataFrame, found: dict[int, list[Row]], name: str) -> DataStreamWriter:
        """Return a writer that collects rows by batch.

        A replayed batch counts once, and unlike Spark's memory sink it can resume.
        """

        def collect(batch: DataFrame, number: int) -> None:
            found[number] = batch.toArrow().to_pylist()

        self.release(name)
        self._callbacks[name] = BatchCallback(collect)
        writer = frame.writeStream.foreachBatch(self._callbacks[name]).outputMode("update")
        return writer.option("checkpointLocation", str(self.folder(name)))

    def release(self, name: str) -> None:
        """Close what the writer of this name, whose query has ended, left open."""
        callback = self._callbacks.pop(name, None)
        if callback is not None:
            callback.close()


def finish(query: StreamingQuery) -> None:
    """Wait for a query to end; an interrupt stops it."""
    try:
        query.awaitTermination()
    finally:
        query.stop()


def input_row(query: int, feed: int, record: Record) -> Row:
    """Return a record as a row of `WIRE_INPUT`; `feed` is its number in the input of the query `query`."""
    return {"q": query, "feed": feed, **members_of(record)}


def outputs_of(rows: list[Row], queries: int) -> list[Output]:
    """Return the output of each query of a pipeline, in order, from rows of `WIRE_OUTPUT`."""
    outputs = [Output() for _ in range(queries)]
    for row in sorted(rows, key=lambda row: row["ordinal"]):
        output = outputs[row["q"]]
        if row["kind"] is not None:
            output.log.append(log_entry(row))
        else:
            output.records.append(_record(row, offset=len(output.records)))
            output.causes.append((row["src_topic"], row["src_part"], row["src_off"]))
    return outputs


def _record(row: Row, *, offset: int) -> Record:
    return Record(
        topic=row["topic"],
        key=row["key"],
        value=row["value"],
        timestamp=row["timestamp"],
        offset=offset,
        headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
    )
