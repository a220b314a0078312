"""Tests what entries of the processing log contain of their record and of the causes of the error."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator

import pytest

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.queries.processing_log import shape
from kestrel_sql.session.session import Session
from kestrel_sql.spark.in_memory.runner import MemoryRunner
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.topics.records import Record

pytestmark = pytest.mark.spark

SOURCE = """
CREATE STREAM S (K STRING KEY, D DECIMAL(4, 2), L ARRAY<INT>, M MAP<STRING, INT>, T TIMESTAMP, B BYTES, G STRUCT<A INT, B STRING>)
  WITH (kafka_topic='s', value_format='JSON');
"""
SELECT = "CREATE STREAM A AS SELECT K, 1 / (ARRAY_LENGTH(L) - 1) AS X, D FROM S;"
STAMPED = "CREATE STREAM A WITH (TIMESTAMP='R') AS SELECT K, CAST(G->A AS BIGINT) AS R, D + 99.99 AS D, T, B FROM S;"
GOOD = {"D": 9.99, "L": [7], "M": {"x": None}, "T": 5, "B": "/w==", "G": {"A": -3, "B": 'q"}'}}
ROW = '[9.99,[7],{"x":null},5,"/w==",{"A":-3,"B":"q\\"}"},70,0,1,"k"]'


@pytest.fixture(scope="module")
def runner() -> Iterator[MemoryRunner]:
    opened = MemoryRunner(open_test_session())
    yield opened
    opened.close()


def outputs(runner: MemoryRunner, text: str, *values: bytes) -> Output:
    session = Session()
    for parsed in session.parse(text):
        session.execute(parsed)
    (query,) = session.queries.values()
    run = QueryRun(plan=query.plan, settings=query.config, serde=session.serde())
    records = [Record(topic="s", key=b"k", value=value, timestamp=70, offset=at) for at, value in enumerate(values)]
    return runner.run(build_pipeline([run], session.functions), records)


@pytest.mark.parametrize("includes", ["true", "false"])
def test_an_entry_contains_its_record_if_the_setting_asks_for_it(runner: MemoryRunner, includes: str) -> None:
    setting = f"SET 'ksql.logging.processing.rows.include'='{includes}';"
    found = outputs(runner, setting + SOURCE + SELECT, b'{"D": "x"', json.dumps(GOOD).encode())
    unread, failed = found.log
    assert (unread.kind, unread.offset, failed.kind, failed.offset) == (0, 0, 1, 1)
    assert unread.cause
    assert not set(unread.cause) & {unread.message}
    if includes == "true":
        assert b64decode(unread.record or "") == b'{"D": "x"'
        assert failed.record == ROW
    else:
        assert (unread.record, failed.record) == (None, None)
    said = shape(unread)["message"]["deserializationError"]
    assert said["cause"] == list(unread.cause)
    assert said.get("recordB64") == unread.record
    assert ("record" in shape(failed)["message"]["recordProcessingError"]) is (includes == "true")


def test_a_row_without_timestamp_is_logged_as_a_whole(runner: MemoryRunner) -> None:
    setting = "SET 'ksql.logging.processing.rows.include'='true';"
    (entry,) = outputs(runner, setting + SOURCE + STAMPED, json.dumps(GOOD).encode()).log
    assert (entry.kind, entry.record) == (1, '[-3,109.98,5,"/w=="]')
