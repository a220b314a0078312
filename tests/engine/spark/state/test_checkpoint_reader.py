"""Tests reading state from a checkpoint that Spark wrote: the right level, page and version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.session.session import Session
from kestrel_sql.spark.in_memory.resumable import ResumableRunner
from kestrel_sql.spark.in_memory.runner import input_row
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.state.checkpoint_reader import CheckpointReader
from kestrel_sql.topics.records import Record

pytestmark = pytest.mark.spark

SETUP = """
CREATE TABLE t (k INT PRIMARY KEY, g INT) WITH (kafka_topic='t', format='JSON');
CREATE TABLE sizes AS SELECT g, COUNT(*) AS n FROM t GROUP BY g;
"""
PAGES = 16
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def pipeline() -> Pipeline:
    session = Session()
    for parsed in session.parse(SETUP):
        session.execute(parsed)
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan, serde=session.serde(), queryable=True)])


def records(first: int, last: int) -> list[Record]:
    return [
        Record(topic="t", key=b"%d" % k, value=b'{"G": %d}' % (k % 20), timestamp=k, offset=k)
        for k in range(first, last)
    ]


@pytest.mark.parametrize("changelogs", ["true", pytest.param("false", marks=pytest.mark.nightly)])
def test_pages_of_two_levels_as_of_the_last_batch(tmp_path: Path, changelogs: str) -> None:
    built, runner = pipeline(), ResumableRunner(open_test_session().newSession())
    runner.spark.conf.set(CHANGELOGS, changelogs)
    stream = runner.stream()
    reader = CheckpointReader(runner.spark, str(tmp_path), levels=2)
    assert reader.states(2) == []

    def advance(first: int, last: int) -> None:
        runner.feed(stream, [input_row(0, record.offset, record) for record in records(first, last)])
        frame = built.frame(runner.read(stream), PAGES)
        writer = frame.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    def stored(level: int, container: str) -> dict[bytes, Any]:
        relation = str(built.graph.levels[level - 1][0].output.number)
        return {key: row for state in reader.states(level) for key, row in state[relation][container].items()}

    # Some pages are those of the first batch, and some those of later ones; then an archive has newer ones than both.
    for first, last, archives in ((0, 100, False), (100, 110, False), (110, 125, True), (125, 130, False)):
        runner.spark.conf.set(CHANGELOGS, "false" if archives else changelogs)
        advance(first, last)
        sizes = {b"%d" % group: len(range(group, last, 20)) for group in range(20)}
        assert {key: row[2][0] for key, row in stored(2, "groups").items()} == sizes
        assert len(stored(1, "rows")) == last
    runner.close()


def test_every_kind_of_table() -> None:
    engine = MemoryEngine(now=lambda: 1000)
    for parsed in engine.session.parse(
        """
        CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='s', format='JSON');
        CREATE TABLE t AS SELECT id, COUNT(*) AS n, SUM(v) AS x FROM s GROUP BY id HAVING SUM(v) > 2;
        CREATE TABLE copy AS SELECT id, n + 1 AS m FROM t;
        CREATE TABLE w AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY id;
        CREATE TABLE j AS SELECT t.id AS id, n, m FROM t JOIN copy ON t.id = copy.id;
        CREATE SOURCE TABLE src (id INT PRIMARY KEY, n BIGINT) WITH (kafka_topic='T', format='JSON');
        INSERT INTO s VALUES (1, 2); INSERT INTO s VALUES (2, 2); INSERT INTO s VALUES (1, 5);
        """
    ):
        engine.execute(parsed)

    def rows(text: str) -> tuple[tuple[object, ...], ...]:
        (parsed,) = engine.session.parse(text)
        return engine.execute(parsed).rows

    assert rows("SELECT id, n, x, ROWTIME FROM t;") == ((1, 2, 7, 1000),)
    assert rows("SELECT * FROM copy WHERE id = 1;") == ((1, 3),)
    assert rows("SELECT * FROM w WHERE WINDOWSTART > 5;") == ((1, 1000, 2000, 2), (2, 1000, 2000, 1))
    assert rows("SELECT m * 2 FROM j WHERE id IN (1, 3);") == ((6,),)
    assert rows("SELECT * FROM src;") == ((1, 2),)
    rows("INSERT INTO s VALUES (1, -9);")
    assert [rows(f"SELECT * FROM {table};") for table in ("t", "copy", "j", "src")] == [(), (), (), ()]
    assert rows("SELECT n FROM w WHERE id = 1;") == ((3,),)
    rows("TERMINATE CTAS_T_0;")
    with pytest.raises(Exception, match="CREATE TABLE QUERYABLE_T AS SELECT"):
        rows("SELECT * FROM t;")
    engine.close()
