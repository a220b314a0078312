"""The engine from Python: statements, rows, pull queries, DataFrames."""

from __future__ import annotations

import datetime as dt
import doctest
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.query import StreamingQuery

import kestrel_sql
from kestrel_sql.errors import InputError, StatementError
from kestrel_sql.spark.python_values import from_python, to_python
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.topics.records import Record
from kestrel_sql.types.sql_types import DATE, INTEGER, STRING, TIME, TIMESTAMP, Array, Field, Map, SqlType, Struct
from tests.kafka.processes import sockets

ORDERS = """
CREATE STREAM ORDERS (ID STRING KEY, ITEM STRING, N INT, PRICE DECIMAL(8,2), DAY DATE, SEEN TIMESTAMP)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE TOTALS AS SELECT ITEM, SUM(N) AS TOTAL, MAX(PRICE) AS TOP FROM ORDERS GROUP BY ITEM;
"""
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)


@pytest.fixture
def engine() -> Iterator[kestrel_sql.Engine]:
    with kestrel_sql.connect(open_test_session()) as opened:
        opened.sql(ORDERS)
        yield opened


def test_importing_the_package_does_not_import_spark() -> None:
    code = "import sys, kestrel_sql; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_package_names_what_it_has() -> None:
    assert all(getattr(kestrel_sql, name) is not None for name in kestrel_sql.__all__)
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = kestrel_sql.conect


@pytest.mark.parametrize(
    ("sql_type", "inside", "outside"),
    [
        (DATE, 19782, dt.date(2024, 2, 29)),
        (TIME, 43200000, dt.time(12)),
        (TIMESTAMP, 1709208000000, NOON),
        (INTEGER, 5, 5),
        (Array(DATE), [0, None], [dt.date(1970, 1, 1), None]),
        (Map(STRING, TIME), {"a": 1}, {"a": dt.time(0, 0, 0, 1000)}),
        (Struct((Field("A", TIMESTAMP),)), {"A": 0}, {"A": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}),
        (DATE, None, None),
    ],
)
def test_values_are_those_of_python(sql_type: SqlType, inside: object, outside: object) -> None:
    assert to_python(sql_type)(inside) == outside
    assert from_python(sql_type)(outside) == inside


def test_moments_beyond_python_stay_integers() -> None:
    assert to_python(TIMESTAMP)(10**18) == 10**18
    assert to_python(DATE)(10**9) == 10**9


def test_rows_that_do_not_fit_are_refused() -> None:
    with kestrel_sql.connect() as engine:
        engine.sql(ORDERS)
        with pytest.raises(InputError, match="PRIZE is not a column of ORDERS") as wrong:
            engine.insert("orders", {"ID": "a", "PRIZE": 1})
        assert wrong.value.hint == "did you mean PRICE?"
        with pytest.raises(InputError, match="N of ORDERS is of type INTEGER, not 'many'"):
            engine.insert("ORDERS", {"ID": "a", "N": "many"})
        with pytest.raises(InputError, match="DAY of ORDERS is of type DATE, not '5'"):
            engine.insert("ORDERS", {"ID": "a", "DAY": "5"})
        with pytest.raises(StatementError, match="there is no stream or table ORDER"):
            engine.insert("ORDER", {})


@pytest.mark.spark
def test_statements_rows_and_pull_queries(engine: kestrel_sql.Engine) -> None:
    row = {"id": "1", "item": "tea", "n": 2, "price": Decimal("1.50"), "day": NOON.date(), "seen": NOON}
    engine.insert("orders", row, timestamp=5)
    engine.insert("ORDERS", {"ID": "2", "ITEM": "tea", "N": 3, "PRICE": Decimal("2.25")}, timestamp=6)
    assert engine.table("TOTALS").pull("tea") == [{"ITEM": "tea", "TOTAL": 5, "TOP": Decimal("2.25")}]
    assert engine.table("totals").pull("coffee") == []
    assert [each["TOTAL"] for each in engine.rows("TOTALS")] == [2, 5]
    first = engine.rows("ORDERS")[0]
    assert (first["DAY"], first["SEEN"], first["ROWTIME"]) == (
        NOON.date(),
        NOON,
        dt.datetime.fromtimestamp(0.005, dt.UTC),
    )
    assert engine.sql("SELECT ITEM, TOTAL FROM TOTALS WHERE ITEM = 'tea';").rows == [{"ITEM": "tea", "TOTAL": 5}]


@pytest.mark.spark
def test_every_type_of_column_goes_in_and_comes_out(engine: kestrel_sql.Engine) -> None:
    engine.sql("""
        CREATE STREAM TYPES (K BIGINT KEY, T TIME, B BYTES, F BOOLEAN, D DOUBLE, L ARRAY<DATE>, M MAP<STRING, INT>,
          S STRUCT<X TIMESTAMP>) WITH (KAFKA_TOPIC='types', VALUE_FORMAT='JSON', PARTITIONS=1);
    """)
    row = {
        "K": 7,
        "T": dt.time(12),
        "B": b"\x00",
        "F": True,
        "D": 0.5,
        "L": [NOON.date()],
        "M": {"a": 1},
        "S": {"X": NOON},
    }
    engine.insert("TYPES", row)
    assert {name: value for name, value in engine.rows("TYPES")[0].items() if name in row} == row
    query = engine.stream("TYPES").select("M", "L", "T").writeStream.format("memory").queryName("types").start()
    try:
        query.processAllAvailable()
        [found] = engine.spark.table("types").collect()
        assert found.asDict() == {"M": {"a": 1}, "L": [NOON.date()], "T": 12 * 3_600_000}
    finally:
        query.stop()


@pytest.mark.spark
def test_a_record_that_cannot_be_read_is_left_out_and_named(engine: kestrel_sql.Engine) -> None:
    engine.memory.produce(Record(topic="orders", key=b"1", value=b"{no json", timestamp=1))
    engine.insert("ORDERS", {"ID": "2", "ITEM": "tea", "N": 3})
    assert [row["ID"] for row in engine.rows("ORDERS")] == ["2"]
    [said] = engine.errors()
    assert said.startswith("CTAS_TOTALS_0: the record at orders, partition 0, offset 0, cannot be read: ")
    assert engine.errors() == []


@pytest.mark.spark
def test_dataframes_go_in_and_come_out(engine: kestrel_sql.Engine) -> None:
    spark = engine.spark
    frame = spark.createDataFrame([("1", "tea", 2), ("2", "milk", 1)], "ID STRING, ITEM STRING, N INT")
    assert engine.insert_frame("ORDERS", frame) == 2
    changes = engine.stream("TOTALS")
    assert changes.isStreaming
    query = changes.select("ITEM", "TOTAL").writeStream.format("memory").queryName("totals").start()
    try:
        query.processAllAvailable()
        engine.insert("ORDERS", {"ID": "3", "ITEM": "tea", "N": 4})
        engine.flush()
        query.processAllAvailable()
        found = {(row.ITEM, row.TOTAL) for row in spark.sql("SELECT * FROM totals").collect()}
    finally:
        query.stop()
    assert found == {("tea", 2), ("milk", 1), ("tea", 6)}


@pytest.fixture(params=["spark", "process"])
def bridged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[kestrel_sql.Engine]:
    """An engine whose queries run on Spark or in this process, with the session of the tests for its DataFrames."""
    session = open_test_session()
    monkeypatch.setattr("kestrel_sql.python_api.open_memory_session", lambda: session)
    with kestrel_sql.connect(session if request.param == "spark" else None) as opened:
        opened.sql(ORDERS)
        yield opened


def total(engine: kestrel_sql.Engine, item: str) -> Any:
    [row] = engine.table("TOTALS").pull(item)
    return row["TOTAL"]


@pytest.mark.spark
def test_state_goes_on_on_both_sides_of_a_stream(bridged: kestrel_sql.Engine) -> None:
    bridged.insert("ORDERS", {"ID": "1", "ITEM": "tea", "N": 2})
    counts = bridged.stream("TOTALS").groupBy("ITEM").count()
    query = counts.writeStream.format("memory").queryName("counts").outputMode("complete").start()

    def counted() -> dict[str, int]:
        query.processAllAvailable()
        return {row["ITEM"]: row["count"] for row in bridged.spark.table("counts").collect()}

    try:
        assert counted() == {"tea": 1}
        bridged.insert("ORDERS", {"ID": "2", "ITEM": "tea", "N": 3})
        bridged.insert("ORDERS", {"ID": "3", "ITEM": "milk", "N": 1})
        bridged.flush()
        assert counted() == {"tea": 2, "milk": 1}
    finally:
        query.stop()
    bridged.insert("ORDERS", {"ID": "4", "ITEM": "tea", "N": 1})
    assert total(bridged, "tea") == 6


@pytest.mark.spark
def test_state_goes_on_on_both_sides_of_insert_frame(bridged: kestrel_sql.Engine, tmp_path: Path) -> None:
    schema = "ID STRING, ITEM STRING, N INT"
    bridged.insert("ORDERS", {"ID": "1", "ITEM": "tea", "N": 2})
    assert total(bridged, "tea") == 2
    (tmp_path / "1.json").write_text('{"ID": "a", "ITEM": "tea", "N": 3}\n{"ID": "a", "ITEM": "tea", "N": 3}\n')
    stream = bridged.spark.readStream.schema(schema).json(str(tmp_path)).dropDuplicates(["ID"])
    query = bridged.insert_frame("ORDERS", stream)
    assert isinstance(query, StreamingQuery)
    try:
        query.processAllAvailable()
        assert total(bridged, "tea") == 5
        (tmp_path / "2.json").write_text('{"ID": "a", "ITEM": "tea", "N": 3}\n{"ID": "b", "ITEM": "tea", "N": 4}\n')
        query.processAllAvailable()
        assert total(bridged, "tea") == 9
    finally:
        query.stop()
    assert bridged.insert_frame("ORDERS", bridged.spark.createDataFrame([("c", "tea", 1)], schema)) == 1
    assert total(bridged, "tea") == 10


def opened(jvm: int) -> tuple[int, int, int]:
    """The threads and descriptors of this process, and the sockets of its JVM."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), sockets(jvm)


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="threads and descriptors are counted in /proc")
def test_what_ends_leaves_no_threads_and_sockets(engine: kestrel_sql.Engine, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"ID": "s", "ITEM": "tea", "N": 1}')
    stream = engine.spark.readStream.schema("ID STRING, ITEM STRING, N INT").json(str(tmp_path))

    def run(*numbers: int) -> None:
        for number in numbers:
            engine.insert("ORDERS", {"ID": str(number), "ITEM": "tea", "N": 1})
            engine.flush()
            made = f"CREATE STREAM MADE WITH (KAFKA_TOPIC='made{number}') AS SELECT * FROM ORDERS;"
            engine.sql(f"{made} DROP STREAM MADE DELETE TOPIC;")
        query = engine.insert_frame("ORDERS", stream)
        assert isinstance(query, StreamingQuery)
        query.processAllAvailable()
        query.stop()

    java: Any = engine.spark._jvm
    jvm = java.java.lang.ProcessHandle.current().pid()
    # Spark keeps a socket for every start of a query with state (docs/reliability.md).
    engine.sql("DROP TABLE TOTALS;")
    run(0, 1)
    before = opened(jvm)
    run(2, 3, 4, 5, 6)
    deadline = time.monotonic() + 60
    # What has been closed is gone when its threads have seen it.
    while any(now > then + 1 for now, then in zip(opened(jvm), before, strict=True)):
        assert time.monotonic() < deadline, (before, opened(jvm))
        time.sleep(0.1)


@pytest.mark.spark
def test_the_examples_of_the_page_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    # The session of the tests, so that no second JVM starts.
    shared = open_test_session()
    monkeypatch.setattr("kestrel_sql.python_api.open_memory_session", lambda: shared)
    page = Path(__file__).resolve().parents[2] / "docs" / "python.md"
    assert doctest.testfile(str(page), module_relative=False) == (0, 17)
