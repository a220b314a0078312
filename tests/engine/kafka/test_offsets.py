"""Tests requests for offsets after a restart of the broker, which refuses those with an old leader epoch."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets


class _Restarted:
    """Refuses requests with an error code until topics are listed."""

    def __init__(self, code: int) -> None:
        self.code, self.is_known = code, False

    def list_topics(self, timeout: float) -> None:
        self.is_known = True

    def list_offsets(self, request: dict[TopicPartition, Any], **_: object) -> dict[TopicPartition, Future[Any]]:
        answers = {}
        for number, asked in enumerate(request):
            answers[asked] = Future[Any]()
            if self.is_known or number:
                answers[asked].set_result(SimpleNamespace(offset=7))
            else:
                answers[asked].set_exception(KafkaException(KafkaError(self.code, "no")))
        return answers


def offsets(code: int) -> tuple[BrokerOffsets, _Restarted]:
    found, admin = BrokerOffsets(KafkaConfig(servers="127.0.0.1:1")), _Restarted(code)
    found._admin = admin
    return found, admin


@pytest.mark.parametrize(
    "code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION]
)
def test_offsets_are_asked_of_the_leader_of_today(code: int) -> None:
    asked, _ = offsets(code)
    assert asked.ends([("in", 0), ("in", 1)], 5.0) == {("in", 0): 7, ("in", 1): 7}


def test_a_refusal_is_reported_at_once() -> None:
    asked, admin = offsets(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(QueryError, match="partition 0 of the topic in"):
        asked.ends([("in", 0)], 5.0)
    assert not admin.is_known


def test_a_leader_is_not_looked_for_for_ever() -> None:
    asked, admin = offsets(KafkaError.FENCED_LEADER_EPOCH)
    admin.list_topics = lambda timeout: None  # type: ignore[method-assign]
    with pytest.raises(QueryError, match="partition 0 of the topic in"):
        asked.ends([("in", 0)], 0.2)
