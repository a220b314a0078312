"""Tests that a client finds another controller when the one that it knows does not answer."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.admin import describe_topics
from kestrel_sql.kafka.client.config import KafkaConfig


class Client:
    """Describes topics only after it has listed them, as one whose controller is gone."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.is_fresh = False

    def describe_topics(self, topics: object, *, request_timeout: float) -> dict[str, Future[str]]:
        future: Future[str] = Future()
        if self.is_fresh:
            future.set_result("described")
        else:
            future.set_exception(KafkaException(KafkaError(self.code, "waiting for controller")))
        return {"t": future}

    def list_topics(self, *, timeout: float) -> None:
        self.is_fresh = True


@pytest.mark.parametrize(
    ("code", "finds"), [(KafkaError._TIMED_OUT, True), (KafkaError.TOPIC_AUTHORIZATION_FAILED, False)]
)
def test_a_client_that_waits_for_its_controller_asks_another_node(
    code: int, finds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(code)
    monkeypatch.setattr("kestrel_sql.kafka.client.admin.admin_client", lambda _: client)

    def describe() -> list[tuple[str, Any]]:
        refused = lambda name, error: QueryError(f"{name}: {error.str()}")  # noqa: E731
        return [*describe_topics(KafkaConfig(servers="h:1"), ["t"], 1, refused)]

    with pytest.raises(QueryError, match="t: waiting for controller"):
        describe()
    assert client.is_fresh is finds
    if finds:
        assert describe() == [("t", "described")]
