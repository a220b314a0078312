"""Running a pipeline over memory streams: records in, records out, cut into micro-batches as asked."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.io.topics import ARROW_INPUT, WIRE_INPUT
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.stages.log_entries import log_entry
from kestrel_sql.topics.records import LogEntry, Record

_names = count()


@dataclass(frozen=True, slots=True)
class Cut:
    """How the input is cut into micro-batches: all at once, one record each, or at random places."""

    each: bool = False
    seed: int | None = None
    restart: bool = False

    @staticmethod
    def parse(text: str | None, restart: bool = False) -> Cut:
        """Read `one`, `each` or `random:SEED`; without a text all at once, but at random where a restart needs a place in the middle.

        Raises:
            ValueError: anything else.
        """
        if text is None:
            return Cut(seed=0 if restart else None, restart=restart)
        if text == "one":
            return Cut(restart=restart)
        if text == "each":
            return Cut(each=True, restart=restart)
        kind, _, seed = text.partition(":")
        if kind != "random" or not seed.removeprefix("-").isdecimal():
            raise ValueError(f"cut must be one, each or random:SEED, not {text!r}")
        return Cut(seed=int(seed), restart=restart)

    def batches(self, rows: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
        """Cut rows that are in feed order, never inside one feed position."""
        if not self.each and self.seed is None:
            yield rows
            return
        random_ = random.Random(self.seed)
        start = 0
        for at in range(1, len(rows) + 1):
            inside = at < len(rows) and rows[at]["feed"] == rows[at - 1]["feed"]
            if not inside and (at == len(rows) or self.each or random_.random() < 0.3):
                yield rows[start:at]
                start = at


@dataclass(slots=True)
class Output:
    """What one query of a group gave."""

    records: list[Record] = field(default_factory=list)
    log: list[LogEntry] = field(default_factory=list)


class MemoryRunner:
    """Runs pipelines on one Spark session over memory streams."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._schema = StructType.fromDDL(WIRE_INPUT)
        self._encoder = jvm.org.apache.spark.sql.Encoders.row(spark._jsparkSession.parseDataType(self._schema.json()))
        shm = Path("/dev/shm")
        self._root = tempfile.mkdtemp(prefix="kestrel-", dir=shm if shm.is_dir() else None)

    @property
    def spark(self) -> SparkSession:
        """The session that it runs on."""
        return self._spark

    def close(self) -> None:
        """Remove the checkpoints of this runner."""
        shutil.rmtree(self._root, ignore_errors=True)

    def run(
        self,
        pipeline: Pipeline,
        feeds: Sequence[Sequence[Record]],
        cut: Cut | None = None,
        look: Callable[[str], None] | None = None,
        *,
        tasks: Sequence[int] | None = None,
        pages: int = 1,
    ) -> list[Output]:
        """Feed each query its records in order, and give what each query wrote, in place order.

        `look` is given the checkpoint at the end, before it is removed. `tasks` is the number of partitions of each query's topics,
        1 if it is not given.

        Raises:
            Exception: Spark's own, when the pipeline as a whole does not run.
        """
        chosen = cut or Cut()
        rows = sorted(
            (_row(q, at, r) for q, feed in enumerate(feeds) for at, r in enumerate(feed)), key=lambda row: row["feed"]
        )
        stream = self._jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream.apply(
            self._encoder, self._spark._jsparkSession
        )
        frame = pipeline.frame(self._spark, DataFrame(stream.toDF(), self._spark), pages, tasks=tasks)
        table = f"kestrel_out_{next(_names)}"
        checkpoint = f"{self._root}/{table}"
        batches = list(chosen.batches(rows))
        if len(batches) <= 1 and not chosen.restart:
            self._feed(stream, rows)
            out = self._once(frame, table, checkpoint)
        else:
            check = partial(check_start, lambda: self._spark, pipeline, checkpoint, pages=pages, tasks=tasks)
            out = self._step_by_step(frame, checkpoint, stream, batches, chosen, check)
        if look is not None:
            look(checkpoint)
        shutil.rmtree(checkpoint, ignore_errors=True)
        return _outputs(out, pipeline, len(feeds))

    def _once(self, frame: DataFrame, table: str, checkpoint: str) -> list[dict[str, Any]]:
        writer = (
            frame.writeStream.format("memory")
            .queryName(table)
            .outputMode("update")
            .option("checkpointLocation", checkpoint)
        )
        self._finish(writer.trigger(availableNow=True).start())
        out: list[dict[str, Any]] = self._spark.table(table).toArrow().to_pylist()
        self._spark.catalog.dropTempView(table)
        return out

    def _finish(self, query: Any) -> None:
        """Wait for a query to end; an interrupt ends it too."""
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def _step_by_step(
        self,
        frame: DataFrame,
        checkpoint: str,
        stream: Any,
        batches: Sequence[Sequence[dict[str, Any]]],
        cut: Cut,
        check: Callable[[], None],
    ) -> list[dict[str, Any]]:
        found: dict[int, list[dict[str, Any]]] = {}
        writer = self._collecting(frame, found, checkpoint)
        check()
        query = writer.start()
        stop_after = random.Random(cut.seed or 0).randrange(len(batches)) if cut.restart and batches else -1
        for at, batch in enumerate(batches):
            self._feed(stream, batch)
            query.processAllAvailable()
            if at == stop_after:
                query.stop()
                check()
                query = writer.start()
        query.processAllAvailable()
        query.stop()
        return [row for batch in found.values() for row in batch]

    def _collecting(self, frame: DataFrame, found: dict[int, list[dict[str, Any]]], checkpoint: str) -> Any:
        """A writer that collects rows by batch, so that a replayed batch counts once; unlike Spark's memory sink it can resume."""

        def collect(batch: DataFrame, number: int) -> None:
            found[number] = batch.toArrow().to_pylist()

        return frame.writeStream.foreachBatch(collect).outputMode("update").option("checkpointLocation", checkpoint)

    def _feed(self, stream: Any, rows: Sequence[dict[str, Any]]) -> None:
        """Hand a batch to the stream in one call: Arrow to the JVM, from there as a list of rows."""
        frame: Any = self._spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=ARROW_INPUT), self._schema)  # type: ignore[call-overload]
        collected = frame._jdf.collectAsList()
        stream.addData(self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(collected).toSeq())


def _row(query: int, feed: int, record: Record) -> dict[str, Any]:
    return {
        "q": query,
        "feed": feed,
        "topic": record.topic,
        "part": record.partition,
        "off": record.offset,
        "ts": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": k, "value": v} for k, v in record.headers],
    }


def _outputs(rows: list[dict[str, Any]], pipeline: Pipeline, queries: int) -> list[Output]:
    outputs = [Output() for _ in range(queries)]
    rows.sort(key=lambda row: row["place"])
    for row in rows:
        query = row["q"]
        if row["kind"] is not None:
            outputs[query].log.append(log_entry(row))
        else:
            headers = tuple((h["key"], h["value"]) for h in row["headers"] or ())
            record = Record(
                topic=row["topic"],
                key=row["key"],
                value=row["value"],
                timestamp=row["timestamp"],
                offset=len(outputs[query].records),
                headers=headers,
            )
            outputs[query].records.append(record)
    return outputs
