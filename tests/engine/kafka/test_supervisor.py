"""Queries that something ended which may pass run again, on a broker as on a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kestrel_sql.errors import EngineError, QueryError, RegistryUnavailableError
from kestrel_sql.kafka.run import supervisor as module
from kestrel_sql.kafka.run.supervisor import RETRY_S, Absences, Supervisor


class Query:
    """A query that fails with `failure` whenever it is started."""

    def __init__(self, failure: EngineError) -> None:
        self.id, self.is_active, self.failure, self.attempts, self.may_be_retried = "Q", False, failure, 0, True
        self.stored, self.progress = SimpleNamespace(id="Q", sources={}, start={}), SimpleNamespace(batch=0)
        self.starts: list[str] = []

    def start(self, *, until_caught_up: bool) -> None:
        self.starts.append("start")

    def retry(self, *, until_caught_up: bool) -> None:
        self.attempts += 1
        self.starts.append("retry")

    def fail(self, error: EngineError) -> None:
        self.failure, self.may_be_retried = error, False


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def supervisor(said: list[str], *errors: Exception, patience: float | None = 60, latest: Any = None) -> Supervisor:
    """A supervisor whose broker or store raises the errors before it answers."""
    fails = iter(errors)

    def topics(_: object) -> dict[str, Any]:
        for failure in fails:
            raise failure
        return {}

    return Supervisor(
        session=SimpleNamespace(registry=SimpleNamespace(latest=latest)),  # type: ignore[arg-type]
        folder=SimpleNamespace(next_offsets=lambda _: {}),  # type: ignore[arg-type]
        offsets=SimpleNamespace(topics=topics, first=dict, ends=dict),  # type: ignore[arg-type]
        broker="the broker h:1",
        say=said.append,
        absences=Absences(said.append, patience),
    )


def test_a_query_is_started_again_after_waits_that_grow_until_there_is_none_left(clock: Clock) -> None:
    said: list[str] = []
    query: Any = Query(QueryError("gone"))
    tends = supervisor(said)
    for attempt, wait in enumerate(RETRY_S):
        assert tends.tend(query)
        clock.now += wait - 0.1
        assert tends.tend(query)
        assert len(query.starts) == attempt
        clock.now += 0.1
        assert tends.tend(query)
        assert query.starts == ["retry"] * (attempt + 1)
    assert not tends.tend(query)
    assert said == ["gone; trying again"] * len(RETRY_S)


@pytest.mark.parametrize(
    ("error", "what"),
    [(QueryError("no offsets"), "the broker h:1"), (OSError(5, "no offsets"), "the store of the checkpoint")],
)
def test_what_does_not_answer_is_waited_for_and_said_once(clock: Clock, error: Exception, what: str) -> None:
    said: list[str] = []
    query: Any = Query(QueryError("gone"))
    tends = supervisor(said, error, error)
    tends.tend(query)
    for _ in range(3):
        clock.now += 10
        assert tends.tend(query)
    assert query.starts == ["retry"]
    assert said == ["gone; trying again", "no offsets; waiting for it up to 60 s", f"{what} answers again"]


def test_what_stays_away_is_given_up_after_the_patience(clock: Clock) -> None:
    tends = supervisor([], QueryError("no offsets"))
    tends.start_again(Query(QueryError("gone")))  # type: ignore[arg-type]
    tends.absences.check()
    clock.now += 61
    with pytest.raises(EngineError, match=r"^the broker h:1 did not answer for 60 s$"):
        tends.absences.check()


def test_a_server_waits_for_ever(clock: Clock) -> None:
    said: list[str] = []
    tends = supervisor(said, QueryError("no offsets"), patience=None)
    tends.start_again(Query(QueryError("gone")))  # type: ignore[arg-type]
    clock.now += 1e6
    tends.absences.check()
    assert said == ["no offsets; waiting for it"]


def test_a_query_goes_on_when_the_schema_registry_answers_and_no_attempt_is_counted(clock: Clock) -> None:
    said: list[str] = []
    away = iter([RegistryUnavailableError("no subject Q")] * 2)

    def latest(_: str) -> None:
        for error in away:
            raise error

    query: Any = Query(RegistryUnavailableError("no schema 7"))
    tends = supervisor(said, latest=latest)
    for _ in range(4):
        assert tends.tend(query)
        clock.now += 10
    assert (query.starts, query.attempts) == (["start"], 0)
    assert said == ["no schema 7; waiting for it up to 60 s", "the schema registry answers again"]


def test_a_query_whose_topics_have_changed_fails_for_good(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "damaged", lambda *_: QueryError("the topic s was deleted"))
    query: Any = Query(QueryError("gone"))
    tends = supervisor([])
    tends.start_again(query)
    assert not tends.tend(query)
    assert (query.starts, query.failure.message) == ([], "the topic s was deleted")
