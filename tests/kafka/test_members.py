"""Members that ksqlDB left in a group are removed; those of one that lives come back, and its query waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run import adoption
from kestrel_sql.kafka.run.adoption import Adoption, StillRunsError
from kestrel_sql.kafka.run.taken_state import Place
from kestrel_sql.kafka.takeover.members import remove_members

pytestmark = pytest.mark.spark


def members(config: KafkaConfig, group: str) -> int:
    return len(admin_client(config).describe_consumer_groups([group])[group].result().members)


@contextmanager
def member(config: KafkaConfig, group: str, topic: str, *, lives: bool) -> Iterator[None]:
    """A member that polls, or one whose process is as good as dead."""
    ended = Event()
    settings = {"session.timeout.ms": 600_000, "heartbeat.interval.ms": 200, "max.poll.interval.ms": 600_000}
    consumer: Any = Consumer({"bootstrap.servers": config.servers, "group.id": group, **settings})
    consumer.subscribe([topic])
    with closing(consumer):
        while not consumer.assignment():
            consumer.poll(0.1)

        def poll() -> None:
            while not ended.is_set():
                consumer.poll(0.1)

        thread = Thread(target=poll)
        if lives:
            thread.start()
        yield
        ended.set()
        if lives:
            thread.join()


def waits(query: Adoption, group: str, place: Place) -> str:
    with pytest.raises(StillRunsError) as caught:
        query._check_idle(group, "Q", place)
    return str(caught.value)


def test_members_are_removed_once_and_those_that_live_come_back(
    kafka: KafkaConfig, spark: SparkSession, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(adoption, "_COME_BACK_S", 3.0)
    name = topic(partitions=1)
    place = Place(folder=tmp_path, spark=lambda: spark, serde=lambda spec: spec)
    told = Adoption(kafka, "a_", lambda _: None)
    removing = Adoption(kafka, "a_", lambda _: None, removes_members=True)
    dead, alive = f"{name}-dead", f"{name}-alive"
    with member(kafka, dead, name, lives=False):
        assert "--remove-members" in waits(told, dead, place)
        assert members(kafka, dead) == 1
        assert "comes back" in waits(removing, dead, place)
        deadline = time.monotonic() + 20
        while True:
            try:
                removing._check_idle(dead, "Q", place)
                break
            except StillRunsError:
                assert time.monotonic() < deadline
                time.sleep(0.5)
    with member(kafka, alive, name, lives=True):
        assert "comes back" in waits(removing, alive, place)
        while not members(kafka, alive):
            time.sleep(0.1)
        assert "came back" in waits(removing, alive, place)


def test_a_broker_that_does_not_remove_members_says_why(kafka: KafkaConfig, spark: SparkSession) -> None:
    with pytest.raises(QueryError, match=r"members of the group no-such-group cannot be removed: \w+"):
        remove_members(spark, kafka, "no-such-group")
