"""How a server comes to hold its checkpoint, and what it does while the store of the checkpoint is away."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from kestrel_sql.errors import CheckpointInUseError, EngineError
from kestrel_sql.kafka.run.manifest import Manifest
from kestrel_sql.kafka.run.run import StoreUri
from kestrel_sql.server import open as opening
from kestrel_sql.server.broker.queries import BrokerQueries
from kestrel_sql.session.session import Session
from kestrel_sql.spark.runtime.start import SparkStart

USED, AWAY = CheckpointInUseError("it is in use"), EngineError("the store does not answer")


class Held:
    """A server that takes a checkpoint whose lock raises `errors` before it is given; `done` is what its Spark did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: EngineError) -> None:
        self.errors = [*errors]
        self.said: list[str] = []
        self.done: list[str] = []
        self.rehearses = Event()
        self.stop = Event()
        self.has_ended = False
        java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: self.has_ended))
        opened: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java))
        self.spark = SparkStart(lambda: opened)
        monkeypatch.setattr(opening, "open_checkpoint", lambda _, session: session() and self)
        monkeypatch.setattr(opening, "warm", lambda _: self.done.append("warm"))
        monkeypatch.setattr(opening, "_STANDBY_S", 0.1)

    @contextmanager
    def locked(self, say: Callable[[str], None], stop: Event) -> Iterator[None]:
        if self.errors:
            raise self.errors.pop(0)
        assert not self.said or self.rehearses.wait(60)
        yield

    def rehearse(self, _: object, is_over: Event) -> None:
        self.done.append("rehearsed")
        self.rehearses.set()
        is_over.wait(60)

    def take(self) -> None:
        run = SimpleNamespace(checkpoint=StoreUri("s3a://bucket/app"), master="local[2]")
        engine: Any = SimpleNamespace(run=run, say=self.said.append, rehearse=self.rehearse)
        try:
            with opening._held(engine, self.spark, self.stop):
                assert not self.errors
        finally:
            self.has_ended = True
            self.spark.close()


def test_a_standby_waits_while_the_checkpoint_is_in_use_or_its_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, USED, AWAY, AWAY, USED)
    held.take()
    assert held.said == ["it is in use; waiting as its standby", "the store does not answer; waiting as its standby"]
    assert held.done == ["rehearsed"]


def test_a_server_that_need_not_wait_does_not_rehearse(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    held.take()
    assert (held.said, held.done) == ([], ["warm"])


def test_a_store_that_is_away_at_the_start_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="the store does not answer"):
        Held(monkeypatch, AWAY).take()


def test_a_standby_ends_with_its_spark_or_when_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, USED, AWAY)
    held.has_ended = True
    with pytest.raises(EngineError, match="Spark has ended"):
        held.take()
    held = Held(monkeypatch, USED)
    held.stop.set()
    with pytest.raises(CheckpointInUseError):
        held.take()


def test_a_query_starts_when_the_store_answers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session, started = Session(), list[str]()
    for parsed in session.parse("CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"):
        session.execute(parsed)
    for parsed in session.parse("CREATE STREAM copies AS SELECT * FROM s;"):
        session.execute(parsed)
    away = [OSError(errno.EIO, "the store does not answer")]

    def prepared(*_: object, **__: object) -> tuple[None, dict[object, int]]:
        if away:
            raise away.pop()
        return None, {}

    def run(_: object, known: Any, *__: object) -> None:
        started.append(known.query.id)
        known.running = SimpleNamespace(execution=None, was_begun=False)

    monkeypatch.setattr(BrokerQueries, "_prepared", prepared)
    monkeypatch.setattr(BrokerQueries, "_run", run)
    none: Any = SimpleNamespace(ends=lambda *_: {})
    queries = BrokerQueries(
        settings=none, session=session, folder=none, offsets=none, spark=none, manifest=Manifest(), adoption=none
    )
    queries.follow()
    assert started == []
    monkeypatch.setattr("kestrel_sql.server.broker.queries._LOOK_S", -1)
    queries.watch()
    assert started == []
    for known in queries._supervised.values():
        assert known.retry_at is not None
        known.retry_at -= 60
    queries.watch()
    queries.watch()
    assert started == [*session.queries]
