"""Checkpoints of small queries, written by Spark in several batches, for tests that read and rewrite them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.session.session import Session
from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.in_memory.resumable import ResumableRunner
from kestrel_sql.spark.in_memory.runner import finish, input_row, outputs_of
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record

SOURCES = """
CREATE STREAM S (K STRING KEY, V INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE T (K STRING PRIMARY KEY, W INT) WITH (kafka_topic='t', value_format='JSON');
CREATE TABLE U (K STRING PRIMARY KEY, W INT) WITH (kafka_topic='u', value_format='JSON');
"""
SHAPES = {
    "aggregate": "CREATE TABLE A AS SELECT K, COUNT(*) AS N, LATEST_BY_OFFSET(V) AS L FROM S GROUP BY K;",
    "rekeyed": "CREATE TABLE A AS SELECT V / 5 % 5 AS G, COUNT(*) AS N, SUM(V) AS X FROM S GROUP BY V / 5 % 5;",
    "table-aggregate": "CREATE TABLE A AS SELECT W % 3 AS G, COUNT(*) AS N, SUM(W) AS X FROM T GROUP BY W % 3;",
    "windows": "CREATE TABLE A AS SELECT K, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY K;",
    "final": "CREATE TABLE A AS SELECT K, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 5 SECONDS, GRACE PERIOD 1 SECOND)"
    " GROUP BY K EMIT FINAL;",
    "sessions": "CREATE TABLE A AS SELECT K, COUNT(*) AS N FROM S WINDOW SESSION (3 SECONDS) GROUP BY K;",
    "stream-table": "CREATE STREAM A AS SELECT S.K AS K, V, W FROM S LEFT JOIN T ON S.K = T.K;",
    "table-table": "CREATE TABLE A AS SELECT ROWKEY AS K, T.W AS W, U.W AS X FROM T FULL OUTER JOIN U ON T.K = U.K;",
    "foreign-key": "CREATE TABLE A AS SELECT T.K AS K, T.W AS W, U.W AS X FROM T JOIN U ON CONCAT('k', CAST(T.W % 7 AS"
    " STRING)) = U.K;",
    "stream-stream": "CREATE STREAM A AS SELECT S.K AS K, S.V AS V, R.V AS X FROM S LEFT JOIN R WITHIN 4 SECONDS GRACE"
    " PERIOD 1 SECOND ON S.K = R.K;",
}
OTHERS = {
    "numbers": "CREATE TABLE A AS SELECT K, COUNT(*) AS N, AVG(V) AS X, MAX(V) AS Y FROM S GROUP BY K;",
    "double-key": "CREATE TABLE A AS SELECT CAST(V AS DOUBLE) AS D, COUNT(*) AS N FROM S GROUP BY CAST(V AS DOUBLE);",
}
_MORE = "CREATE STREAM R (K STRING KEY, V INT) WITH (kafka_topic='r', value_format='JSON');"


@cache
def pipeline(shape: str) -> Pipeline:
    session = Session()
    for parsed in session.parse(SOURCES + _MORE + {**SHAPES, **OTHERS}[shape]):
        session.execute(parsed)
    return build_pipeline([QueryRun(plan=query.plan, serde=session.serde()) for query in session.queries.values()])


def records(first: int, last: int, tasks: int = 1, keys: int = 23) -> list[Record]:
    """Records of all topics in turn, some of them late, some tombstones, at the partition of their key."""
    found = []
    for at in range(first, last):
        key, topic = b"k%d" % (at * 7 % keys), "strur"[at % 5]
        field_ = "W" if topic in "tu" else "V"
        value = None if topic in "tu" and at % 11 == 0 else b'{"%s": %d}' % (field_.encode(), at)
        timestamp = at * 400 - (3000 if at % 13 == 0 else 0) + 5000
        partition = partition_of(key, tasks)
        found.append(Record(topic=topic, key=key, value=value, timestamp=timestamp, partition=partition, offset=at))
    return found


@dataclass(slots=True)
class Run:
    """A query over one memory stream, which goes on from whatever checkpoint it is pointed to."""

    runner: ResumableRunner
    pipeline: Pipeline
    pages: int
    tasks: int
    checkpoint: Path
    stream: Any = field(init=False)
    fed: int = 0

    def __post_init__(self) -> None:
        self.stream = self.runner.stream()

    def skip(self, given: Sequence[Record]) -> None:
        """Set the stream to the offset after records that the checkpoint has processed in one batch."""
        topics = {source.topic for source in self.pipeline.graph.sources}
        rows = [input_row(0, self.fed + at, record) for at, record in enumerate(given) if record.topic in topics]
        self.fed += len(given)
        self.runner.feed(self.stream, rows)

    def advance(self, given: Sequence[Record]) -> list[tuple[object, ...]]:
        """Process records as one batch; returns the outputs."""
        tasks = [self.tasks] * len(self.pipeline.tasks({}))
        check_start(
            lambda: self.runner.spark,
            self.pipeline,
            self.checkpoint,
            pages=self.pages,
            tasks=tasks,
            has_task_pages=True,
        )
        self.skip(given)
        frame = self.pipeline.frame(self.runner.read(self.stream), pages=self.pages, tasks=tasks, has_task_pages=True)
        found: list[Any] = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: found.extend(batch.toArrow().to_pylist()))
        writer = writer.outputMode("update").option("checkpointLocation", str(self.checkpoint))
        finish(writer.trigger(availableNow=True).start())
        outputs = outputs_of(found, 1)[0].records
        return [(record.key, record.value, record.timestamp) for record in outputs]
