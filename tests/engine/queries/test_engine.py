"""Tests a whole engine in one process, on Spark."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.errors import CheckpointError, EngineError
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.spark_execution import SparkCarrier
from kestrel_sql.spark.runtime.session import open_test_session
from tests.engine.queries.memory_engine import engine_with, tell

pytestmark = pytest.mark.spark

SETUP = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t AS SELECT k, SUM(v) AS total FROM s WHERE v > 0 GROUP BY k;
"""


@pytest.fixture
def engine() -> Iterator[MemoryEngine]:
    with engine_with(SETUP) as made:
        yield made


@pytest.mark.rules("L5.16", "L5.23")
def test_inserts_feed_queries_that_go_on_where_they_were(engine: MemoryEngine) -> None:
    tell(engine, "INSERT INTO s VALUES (1, 2); INSERT INTO s VALUES (2, LEN('abc')); INSERT INTO s VALUES (1, -5);")
    assert tell(engine, "SELECT * FROM t;").rows == ((1, 2), (2, 3))
    assert engine.queries.progress() == {"CTAS_T_0": (3, 2, 0, "")}
    # The state stays when the query is replaced, and what came before is not read again.
    tell(
        engine,
        "CREATE OR REPLACE TABLE t AS SELECT k, SUM(v) AS total FROM s WHERE v > 10 GROUP BY k; INSERT INTO s VALUES"
        " (1, 20);",
    )
    assert tell(engine, "SELECT total FROM t WHERE k = 1;").rows == ((22,),)
    tell(engine, "PAUSE CTAS_T_0; INSERT INTO s VALUES (1, 100);")
    assert tell(engine, "SELECT total FROM t WHERE k = 1;").rows == ((22,),)
    assert tell(engine, "SHOW QUERIES;").rows[0][2] == "PAUSED"
    tell(engine, "RESUME ALL;")
    assert tell(engine, "SELECT total FROM t WHERE k = 1;").rows == ((122,),)
    pushed = tell(engine, "SELECT k, v FROM s EMIT CHANGES LIMIT 2;")
    assert (pushed.rows, pushed.limited) == (((1, 2), (2, 3)), True)
    tell(engine, "TERMINATE CTAS_T_0; DROP TABLE t DELETE TOPIC;")
    with pytest.raises(EngineError, match="does not exist"):
        tell(engine, "SELECT * FROM t;")


def test_schemas_go_with_their_topic(engine: MemoryEngine) -> None:
    made = "CREATE STREAM a (k INT KEY, v INT) WITH (kafka_topic='a', key_format='{0}', value_format='{0}');"
    for key_format, subjects in (("AVRO", ("a-key", "a-value")), ("JSON", ())):
        tell(engine, made.format(key_format))
        assert engine.session.registry.subjects() == subjects
        tell(engine, "DROP STREAM a DELETE TOPIC;")
        assert engine.session.registry.subjects() == ()


def test_a_value_that_cannot_be_computed_is_refused(engine: MemoryEngine) -> None:
    with pytest.raises(EngineError, match="Failed to evaluate"):
        tell(engine, "INSERT INTO s VALUES (1, CAST('x' AS INT));")


def test_an_interrupt_stops_the_push_query_and_nothing_else() -> None:
    spark = open_test_session()
    with engine_with(SETUP, SparkCarrier(lambda: spark)) as engine:
        _interrupted(engine, spark)


def _interrupted(engine: MemoryEngine, spark: SparkSession) -> None:
    tell(engine, "INSERT INTO s VALUES (1, 2);")
    assert tell(engine, "SELECT * FROM t;").rows == ((1, 2),)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while not spark.streams.active and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            tell(engine, "SELECT * FROM s EMIT CHANGES;")
        thread.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert spark.streams.active == []
    tell(engine, "INSERT INTO s VALUES (2, 1);")
    assert tell(engine, "SELECT * FROM t;").rows == ((1, 2), (2, 1))


def test_a_table_keeps_its_rows_when_a_filter_comes_and_goes(engine: MemoryEngine) -> None:
    tell(engine, "CREATE TABLE p (k INT PRIMARY KEY, v INT) WITH (kafka_topic='p', value_format='JSON');")
    tell(engine, "CREATE TABLE c AS SELECT k, v FROM p; INSERT INTO p VALUES (1, 1); INSERT INTO p VALUES (2, 20);")
    assert tell(engine, "SELECT * FROM c;").rows == ((1, 1), (2, 20))
    tell(
        engine,
        "CREATE OR REPLACE TABLE c AS SELECT k, v FROM p WHERE v > 10; INSERT INTO p VALUES (3, 3); INSERT INTO p"
        " VALUES (2, 2);",
    )
    assert tell(engine, "SELECT * FROM c;").rows == ((1, 1),)
    tell(engine, "CREATE OR REPLACE TABLE c AS SELECT k, v FROM p; INSERT INTO p VALUES (3, 4);")
    assert tell(engine, "SELECT * FROM c;").rows == ((1, 1), (3, 4))
    # What was stored before a column was added has NULL in it.
    tell(engine, "CREATE OR REPLACE TABLE c AS SELECT k, v, v + 1 AS w FROM p; INSERT INTO p VALUES (3, 5);")
    assert tell(engine, "SELECT k, w FROM c WHERE k = 3;").rows == ((3, 6),)
    assert tell(engine, "SELECT k, w FROM c WHERE k = 1;").rows == ((1, None),)


def test_a_replaced_query_whose_state_does_not_match_stops_and_never_restarts(engine: MemoryEngine) -> None:
    tell(engine, "CREATE TABLE n AS SELECT k, COUNT(v + 1) AS c FROM s GROUP BY k; INSERT INTO s VALUES (1, 2);")
    assert tell(engine, "SELECT c FROM n;").rows == ((1,),)
    with pytest.raises(
        CheckpointError, match=r"CTAS_N_1 cannot resume .*KSQL_INTERNAL_COL_2` INTEGER.*KSQL_INTERNAL_COL_2` STRING"
    ):
        tell(engine, "CREATE OR REPLACE TABLE n AS SELECT k, COUNT(CAST(v + 1 AS STRING)) AS c FROM s GROUP BY k;")
    tell(engine, "INSERT INTO s VALUES (1, 3);")
    assert tell(engine, "SELECT total FROM t;").rows == ((5,),)
    assert [record.value for record in engine.broker.records("N")] == [b'{"C":1}']
    assert "cannot resume from its state" in engine.queries.progress()["CTAS_N_1"][3]
