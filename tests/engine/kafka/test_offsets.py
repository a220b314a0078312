"""Tests requests for offsets of partitions whose leader has moved, has restarted or is gone."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets, committed_offsets

_GONE = 0
"""In place of an error code: the client answers without an error and without an offset."""


class _Restarted:
    """Refuses requests with an error code until topics are listed `looks` times."""

    def __init__(self, code: int, looks: int = 1) -> None:
        self.code, self.looks = code, looks
        self.patience: list[float] = []

    @property
    def is_known(self) -> bool:
        return self.looks <= 0

    def list_topics(self, timeout: float) -> None:
        self.looks -= 1

    def list_offsets(
        self, request: dict[TopicPartition, Any], request_timeout: float, **_: object
    ) -> dict[TopicPartition, Future[Any]]:
        self.patience.append(request_timeout)
        answers = {}
        for number, asked in enumerate(request):
            answers[asked] = Future[Any]()
            if self.is_known or number:
                answers[asked].set_result(SimpleNamespace(offset=7))
            elif self.code == _GONE:
                answers[asked].set_result(SimpleNamespace(offset=OFFSET_INVALID))
            else:
                answers[asked].set_exception(KafkaException(KafkaError(self.code, "no")))
        return answers


def offsets(code: int, looks: int = 1) -> tuple[BrokerOffsets, _Restarted]:
    found, admin = BrokerOffsets(KafkaConfig(servers="127.0.0.1:1")), _Restarted(code, looks)
    found._admin = admin
    return found, admin


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._TIMED_OUT,
        _GONE,
    ],
)
def test_offsets_are_asked_of_the_leader_of_today(code: int) -> None:
    asked, _ = offsets(code)
    assert asked.ends([("in", 0), ("in", 1)], 5.0) == {("in", 0): 7, ("in", 1): 7}


def _done(answer: Any) -> Future[Any]:
    future = Future[Any]()
    future.set_result(answer)
    return future


def test_a_leader_that_is_gone_is_waited_for_shortly_then_longer_and_not_beyond_the_end() -> None:
    asked, admin = offsets(_GONE, looks=3)
    assert asked.ends([("in", 0)], 5.0) == {("in", 0): 7}
    assert admin.patience == [1.0, 2.0, 4.0, pytest.approx(5.0, abs=0.5)]


def test_a_refusal_is_reported_at_once() -> None:
    asked, admin = offsets(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(QueryError, match="partition 0 of the topic in"):
        asked.ends([("in", 0)], 5.0)
    assert not admin.is_known


@pytest.mark.parametrize("code", [KafkaError.FENCED_LEADER_EPOCH, _GONE])
def test_a_leader_is_not_looked_for_for_ever(code: int) -> None:
    asked, _ = offsets(code, looks=1000)
    with pytest.raises(QueryError, match="partition 0 of the topic in"):
        asked.ends([("in", 0)], 0.2)


def test_an_offset_that_the_broker_refuses_to_tell_is_not_taken_for_none() -> None:
    refused = SimpleNamespace(offset=OFFSET_INVALID, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    consumer = SimpleNamespace(committed=lambda partitions, timeout: [refused])
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        committed_offsets(consumer, [TopicPartition("in", 0)], 1.0)
