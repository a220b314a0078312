"""The command topic: what is written is exact, and a statement that is not written leaves no open transaction."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.plan.codec.plan_file import encode_statement
from kestrel_sql.server.broker.command_topic import CommandTopic
from kestrel_sql.session.session import Session
from kestrel_sql.topics.records import Record

WINDOWS = [
    "WINDOW TUMBLING (SIZE 9223372036854 MILLISECONDS) GROUP BY k",
    "WINDOW HOPPING (SIZE 3 SECONDS, ADVANCE BY 1 MILLISECOND, GRACE PERIOD 7 DAYS) GROUP BY k",
    "WINDOW SESSION (5 SECONDS) GROUP BY k",
]


class Writer:
    """A producer that notes what it is asked for; `fails` names the calls that raise."""

    def __init__(self, **fails: BaseException) -> None:
        self.fails, self.asked, self.written = fails, list[str](), list[tuple[str, str]]()

    def begin_transaction(self) -> None:
        self._do("begin")

    def produce(self, topic: str, *, key: str, value: str, partition: int, on_delivery: Callable[..., Any]) -> None:
        self._do("produce")
        self.written.append((key, value))
        on_delivery(None, self)

    def offset(self) -> int:
        return len(self.written) - 1

    def commit_transaction(self, timeout: float) -> None:
        self._do("commit")

    def abort_transaction(self, timeout: float) -> None:
        self._do("abort")

    def close(self) -> None:
        self._do("close")

    def _do(self, call: str) -> None:
        self.asked.append(call)
        if call in self.fails:
            raise self.fails[call]


def topic_of(writer: Writer) -> CommandTopic:
    topic = CommandTopic(KafkaConfig(servers="127.0.0.1:1"), "app")
    topic._producer = writer  # type: ignore[assignment]
    return topic


@pytest.mark.rules("R5.1")
@pytest.mark.parametrize("window", WINDOWS)
def test_a_plan_with_a_window_is_written_and_read_back_exactly(window: str) -> None:
    session = Session()
    text = f"""CREATE STREAM s (k INT KEY) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
        CREATE TABLE c AS SELECT k, COUNT(*) AS n FROM s {window};"""
    plans = [session.execute(parsed).plan for parsed in session.parse(text)]
    assert plans[1] is not None
    plan = encode_statement(plans[1])
    writer = Writer()
    topic = topic_of(writer)
    assert topic.write("table/`C`/create", "CREATE", ({}, {"a": Decimal("0.10")}), plan) == 0
    (key, value) = writer.written[0]
    (command,) = topic._command(Record(topic=topic.topic, key=key.encode(), value=value.encode(), timestamp=0))
    assert command.record.plan == plan
    assert command.record.configured == {"a": Decimal("0.10")}
    assert writer.asked == ["begin", "produce", "commit"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("produce", BufferError("full")),
        ("produce", RuntimeError("anything")),
        ("commit", KafkaException(KafkaError(KafkaError._TIMED_OUT))),
        ("commit", KeyboardInterrupt()),
    ],
)
def test_whatever_is_raised_no_transaction_stays_open(call: str, error: BaseException) -> None:
    writer = Writer(**{call: error})
    topic = topic_of(writer)
    with pytest.raises((EngineError, BufferError, RuntimeError, KeyboardInterrupt)):
        topic.write("k", "CREATE", ({}, {}), None)
    assert writer.asked[-1] == "abort"
    writer.fails.clear()
    assert topic.write("k", "CREATE", ({}, {}), None) >= 0


def test_a_value_that_json_does_not_have_opens_no_transaction() -> None:
    writer = Writer()
    with pytest.raises(TypeError):
        topic_of(writer).write("k", "CREATE", ({"a": object()}, {}), None)
    assert writer.asked == []


def test_a_topic_whose_last_statement_is_in_doubt_takes_no_other() -> None:
    lost = KafkaException(KafkaError(KafkaError._TRANSPORT))
    writer = Writer(commit=lost, abort=lost)
    topic = topic_of(writer)
    for says in ("did not take the statement", "is not open"):
        with pytest.raises(EngineError, match=says):
            topic.write("k", "CREATE", ({}, {}), None)
    assert writer.asked == ["begin", "produce", "commit", "abort", "close"]
