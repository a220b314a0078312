"""Tests the processing log: the form of an entry, and the message when the broker refuses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.processing_log import LogWriter
from kestrel_sql.queries.processing_log import shape
from kestrel_sql.topics.records import LogEntry

SOURCE = {"topic": "t", "partition": 2, "offset": 7}


def entry(kind: int, message: str, *cause: str, record: str | None = None) -> LogEntry:
    return LogEntry(kind=kind, logger="processing.Q.Source", message=message, cause=cause, record=record, **SOURCE)


@pytest.mark.rules("E8.1", "E8.5")
@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        (
            0,
            "value: bad",
            {"deserializationError": {"target": "value", "errorMessage": "bad", "cause": [], "topic": "t"}},
        ),
        (
            0,
            "key: a: b",
            {"deserializationError": {"target": "key", "errorMessage": "a: b", "cause": [], "topic": "t"}},
        ),
        (
            0,
            "odd: bad",
            {"deserializationError": {"target": None, "errorMessage": "odd: bad", "cause": [], "topic": "t"}},
        ),
        (1, "value: bad", {"recordProcessingError": {"errorMessage": "value: bad", "cause": []}}),
        (2, "bad", {"productionError": {"errorMessage": "bad"}}),
        (
            3,
            "value: bad",
            {"serializationError": {"target": "value", "errorMessage": "bad", "cause": [], "topic": "t"}},
        ),
        (4, "bad", {"kafkaStreamsThreadError": {"errorMessage": "bad", "threadName": "Q", "cause": ["bad"]}}),
    ],
)
def test_an_entry_has_ksqldb_s_shape_and_names_its_record(kind: int, message: str, expected: dict[str, Any]) -> None:
    assert shape(entry(kind, message), now=lambda: 1.5) == {
        "level": "ERROR",
        "logger": "processing.Q.Source",
        "time": 1500,
        "message": {"type": kind, **expected},
        "source": SOURCE,
    }


@pytest.mark.rules("E8.3", "E8.4")
@pytest.mark.parametrize(
    ("kind", "part", "expected"),
    [
        (
            0,
            "deserializationError",
            {"target": "value", "errorMessage": "bad", "recordB64": "eA==", "cause": ["a", "b"], "topic": "t"},
        ),
        (1, "recordProcessingError", {"errorMessage": "value: bad", "record": "eA==", "cause": ["a", "b"]}),
        (2, "productionError", {"errorMessage": "value: bad"}),
        (
            3,
            "serializationError",
            {"target": "value", "errorMessage": "bad", "record": "eA==", "cause": ["a", "b"], "topic": "t"},
        ),
        (
            4,
            "kafkaStreamsThreadError",
            {"errorMessage": "value: bad", "threadName": "Q", "cause": ["value: bad", "a", "b"]},
        ),
    ],
)
def test_the_record_of_an_entry_has_the_member_of_ksqldb(kind: int, part: str, expected: dict[str, Any]) -> None:
    assert shape(entry(kind, "value: bad", "a", "b", record="eA=="))["message"] == {"type": kind, part: expected}


def test_the_causes_of_an_error_are_named_once() -> None:
    assert entry(0, "value: bad", "why", "bad").text == "value: bad; why"


class _Broker:
    """A producer that reports what the test wants."""

    sent: list[bytes]
    closed: list[bool]
    refusal: str | None = None
    unanswered: int = 0

    def __init__(self, settings: dict[str, Any]) -> None:
        self.reports: list[Callable[[Any, Any], None]] = []

    def produce(self, topic: str, *, value: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        self.sent.append(value)
        self.reports.append(on_delivery)

    def close(self) -> None:
        self.closed.append(True)

    def flush(self, seconds: float) -> int:
        for report in self.reports[self.unanswered :]:
            report(None if self.refusal is None else _Refusal(self.refusal), None)
        self.reports.clear()
        return self.unanswered


class _Refusal:
    def __init__(self, text: str) -> None:
        self.text = text

    def str(self) -> str:
        return self.text


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> type[_Broker]:
    stub = type("Stub", (_Broker,), {"sent": [], "closed": []})
    monkeypatch.setattr("kestrel_sql.kafka.run.processing_log.Producer", stub)
    return stub


def test_entries_are_written_in_order(broker: type[_Broker]) -> None:
    told: list[str] = []
    LogWriter(KafkaConfig(servers="b:1"), "log", told.append).write([entry(1, "a"), entry(1, "b")])
    assert [json.loads(value)["message"]["recordProcessingError"]["errorMessage"] for value in broker.sent] == [
        "a",
        "b",
    ]
    assert told == []


def test_lost_entries_are_reported(broker: type[_Broker]) -> None:
    told: list[str] = []
    writer = LogWriter(KafkaConfig(servers="b:1"), "log", told.append)
    broker.refusal = "no such topic"
    writer.write([entry(1, "a"), entry(1, "b")])
    broker.refusal, broker.unanswered = None, 1
    writer.write([entry(1, "c")])
    writer.write([])
    assert told == [
        "2 entries of the processing log were not written to the topic log: no such topic",
        "1 entries of the processing log were not written to the topic log: the broker does not answer",
    ]


def test_without_a_topic_nothing_is_written(broker: type[_Broker]) -> None:
    writer = LogWriter(KafkaConfig(servers="b:1"), None, lambda _: None)
    writer.write([entry(1, "a")])
    writer.close()
    assert (broker.sent, broker.closed) == ([], [])


def test_a_connection_that_was_opened_is_closed(broker: type[_Broker]) -> None:
    writer = LogWriter(KafkaConfig(servers="b:1"), "log", lambda _: None)
    for _ in range(2):
        writer.write([entry(1, "a")])
        writer.close()
        writer.close()
    assert (len(broker.sent), broker.closed) == (2, [True, True])
