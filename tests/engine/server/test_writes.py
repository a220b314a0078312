"""Commands and rows on their way to a broker that refuses them or is slow, by raw HTTP, without a broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.server.broker import command_topic, producing
from kestrel_sql.server.broker.command_topic import CommandTopic
from kestrel_sql.server.broker.producing import RowProducer
from kestrel_sql.server.memory.backend import MemoryBackend
from kestrel_sql.server.open import Running, ServerSettings, backend_server
from kestrel_sql.server.serving.backend import Done, Written
from kestrel_sql.session.session import Executed, Session
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.records import Record
from tests.engine.server.servers import Http2Request, ksql

CREATE = (
    "CREATE STREAM orders (id INT KEY, item STRING) WITH (kafka_topic='orders', value_format='JSON', partitions=1);"
)
DENIED, AWAY = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._MSG_TIMED_OUT


class Refusing:
    """A producer whose broker refuses everything, the transactions for commands included."""

    reason = DENIED

    def __init__(self, *_: object) -> None:
        pass

    def init_transactions(self, *_: object) -> None:
        pass

    begin_transaction = abort_transaction = flush = close = poll = init_transactions

    def commit_transaction(self, *_: object) -> None:
        raise KafkaException(KafkaError(self.reason))

    def produce(self, *_: object, on_delivery: Any, partition: int = -1, **__: object) -> None:
        if partition < 0:
            on_delivery(KafkaError(self.reason), None)


class Away(Refusing):
    """A producer whose broker does not answer."""

    reason = AWAY


class Backend(MemoryBackend):
    """Topics in memory, but commands and rows go to a broker."""

    topic: CommandTopic
    rows: RowProducer

    def command(
        self, parsed: ParsedStatement, planned: Executed | None, config: Config, variables: dict[str, str]
    ) -> Done:
        if "refused" in parsed.text:
            self.topic.write("key", parsed.text, ({}, {}), None)
        return super().command(parsed, planned, config, variables)

    def produce(self, records: Sequence[Record]) -> Future[Written]:
        return self.rows.write(records)


@pytest.fixture(scope="module", params=[Refusing, Away])
def refusing(request: pytest.FixtureRequest) -> Iterator[tuple[Running, bool]]:
    """A server whose broker refuses every command and row, and whether that is for want of an ACL."""
    config, producer = KafkaConfig(servers="nowhere:1"), request.param
    topic = CommandTopic(config, "default_")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_topic, "Producer", producer)
        patch.setattr(command_topic, "shapes_of", lambda *_: {topic.topic: SimpleNamespace(partitions=1)})
        patch.setattr(producing, "Producer", producer)
        topic.open()
        rows = RowProducer(config)

    def make(wake: Callable[[], None]) -> Backend:
        backend = Backend(ServedEngine(Session()), 100, wake)
        backend.topic, backend.rows = topic, rows
        return backend

    with backend_server(make, ServerSettings(port=0)) as running:
        ksql(running.url, CREATE)
        yield running, producer is Refusing
    rows.close()


@pytest.mark.rules("R4.1", "R5.1")
def test_a_command_that_the_broker_does_not_take(refusing: tuple[Running, bool]) -> None:
    running, is_denied = refusing
    answer = ksql(running.url, CREATE.replace("orders", "refused"))
    error = answer.json()
    expected = (403, 40301, "generic_error") if is_denied else (500, 50000, "statement_error")
    assert (answer.status_code, error["error_code"], error["@type"]) == expected
    assert "the command topic _confluent-ksql-default__command_topic did not take the statement" in error["message"]
    assert ("the user needs" in error["message"]) == is_denied
    assert [each["name"] for each in ksql(running.url, "LIST STREAMS;").json()[0]["streams"]] == ["ORDERS"]


@pytest.mark.rules("R4.1")
def test_a_row_that_the_broker_does_not_take(refusing: tuple[Running, bool]) -> None:
    running, is_denied = refusing
    answer = ksql(running.url, "INSERT INTO orders VALUES (1, 'tea');")
    assert (answer.status_code, answer.json()["error_code"]) == ((403, 40301) if is_denied else (500, 50000))
    assert "the record for the topic orders was not written" in answer.json()["message"]


@pytest.mark.rules("R4.1", "R10.4")
def test_a_row_of_a_stream_of_rows_that_the_broker_does_not_take(refusing: tuple[Running, bool]) -> None:
    running, is_denied = refusing
    with Http2Request(running.url, "/inserts-stream") as request:
        request.send(b'{"target":"orders"}\n{"id":1}\n')
        error = json.loads(request.line())
    assert (error["seq"], error["status"], error["error_code"]) == (0, "error", 40301 if is_denied else 50000)
    assert "row 0: the record for the topic orders was not written" in error["message"]


class Slow(MemoryBackend):
    """A topic that acknowledges a batch of rows once the next one is there."""

    waiting: Future[Written] | None = None

    def produce(self, records: Sequence[Record]) -> Future[Written]:
        before, self.waiting = self.waiting, Future()
        if before is not None:
            before.set_result(Written(1))
            self.waiting.set_result(Written(1))
        return self.waiting


@pytest.mark.rules("R10.3")
def test_rows_are_sent_while_earlier_ones_wait_for_their_acknowledgement() -> None:
    engine = ServedEngine(Session())
    with backend_server(lambda wake: Slow(engine, 100, wake), ServerSettings(port=0)) as running:
        ksql(running.url, CREATE)
        with Http2Request(running.url, "/inserts-stream") as request:
            request.send(b'{"target":"orders"}\n{"id":1}\n')
            request.send(b'{"id":2}\n')
            assert [json.loads(request.line())["seq"] for _ in range(2)] == [0, 1]
