"""The stream over the processing log of queries in memory."""

from __future__ import annotations

import json

import pytest

from kestrel_sql.planner.config import Config
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.session.session import Session
from kestrel_sql.topics.records import LogEntry

ENTRY = LogEntry(kind=1, logger="processing.Q.S", message="no number", topic="s", partition=2, offset=7)


def engine(**properties: str) -> MemoryEngine:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    return MemoryEngine(Session(config=Config.of(names)))


@pytest.mark.rules("E8.6")
def test_it_is_there_if_a_property_asks_for_it() -> None:
    assert not engine().session.catalog.sources
    opened = engine(ksql_logging_processing_stream_auto_create="true", ksql_service_id="x-")
    source = opened.session.catalog.sources["KSQL_PROCESSING_LOG"]
    assert source.topic == "x-ksql_processing_log"
    assert opened.broker.topics == (source.topic,)
    opened.queries.log_stream.write([ENTRY])
    (record,) = opened.broker.records(source.topic)
    written = json.loads(record.value or b"")
    assert written["message"]["recordProcessingError"]["errorMessage"] == "no number"
    assert record.timestamp == written["time"]


@pytest.mark.rules("E8.6")
def test_set_declares_it_once_under_its_names() -> None:
    opened = engine(ksql_logging_processing_stream_name="its_log", ksql_logging_processing_topic_name="its-topic")
    for parsed in opened.session.parse("SET 'ksql.logging.processing.stream.auto.create'='true'; SHOW STREAMS;"):
        opened.execute(parsed)
    assert opened.session.catalog.sources["ITS_LOG"].topic == "its-topic"
    opened.queries.log_stream.open()
