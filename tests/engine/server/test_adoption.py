"""A query of ksqlDB is taken over once: it waits for the group of ksqlDB, and is refused where history is gone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.run import adoption
from kestrel_sql.kafka.run.adoption import Adoption, StillRunsError, check_history
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest, StoredQuery
from kestrel_sql.kafka.run.prepare_query import Preparation, Prepared
from kestrel_sql.kafka.takeover.left import Committed, Left
from kestrel_sql.server.broker import queries as supervision
from kestrel_sql.server.broker.queries import BrokerQueries
from kestrel_sql.session.session import Session

QUERY = "CSAS_B_0"


class Service:
    """The queries of a service whose command topic was taken over; `members` are those of ksqlDB's group."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, levels: int = 0, low: int = 0) -> None:
        self.said: list[str] = []
        self.started: list[dict[tuple[str, int], int]] = []
        self.members, self.low, self.levels = 1, low, levels
        self.committed = {("a", 0): 70}
        self.is_open = self.rebuilds = False
        self.folder = CheckpointFolder(folder)
        monkeypatch.setattr(Preparation, "new", lambda _, named: self._new(named))
        monkeypatch.setattr(Preparation, "known", lambda _, named, stored: self._known(named, stored))
        monkeypatch.setattr(BrokerQueries, "_run", self._run)
        monkeypatch.setattr(Adoption, "_committed", lambda *_: self.committed)
        monkeypatch.setattr(Adoption, "_check_idle", lambda *_: self._check_idle())
        monkeypatch.setattr(Adoption, "_left", lambda *_: self._left())
        monkeypatch.setattr(adoption, "_taken", _cannot)
        monkeypatch.setattr(Prepared, "check", lambda *_: {})
        monkeypatch.setattr(supervision, "_LOOK_S", -1)

    def start(self) -> BrokerQueries:
        """The queries after a start of the server, which has carried out the command topic."""
        session = Session()
        for parsed in session.parse(
            "CREATE STREAM a (id INT KEY, n INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON', PARTITIONS=1);"
            "CREATE STREAM b AS SELECT * FROM a;"
        ):
            session.execute(parsed)
        none: Any = SimpleNamespace(ends=lambda *_: {}, slots=1)
        offsets: Any = SimpleNamespace(
            ends=lambda *_: {},
            first=lambda _: {("a", 0): self.low},
            topics=lambda _: {},
            written=lambda _: {("B", 0): 1} if self.is_open else {},
        )
        return BrokerQueries(
            settings=none,
            session=session,
            folder=self.folder,
            offsets=offsets,
            spark=none,
            manifest=self.folder.load(),
            adoption=Adoption(none, "s_", self.said.append, rebuilds=self.rebuilds),
        )

    def _left(self) -> Left:
        committed = {position: Committed(offset) for position, offset in self.committed.items()}
        return Left(prefix="", records={}, committed=committed, sink=list)

    def _check_idle(self) -> None:
        if self.members:
            raise StillRunsError("it has members")

    def _new(self, named: Any) -> Prepared:
        stored = StoredQuery(
            name=named.name,
            id=named.query.id,
            statement="",
            plan={},
            settings={},
            reading="",
            sources={},
            start={("a", 0): 0},
            pages=1,
        )
        return self._known(named, stored)

    def _known(self, named: Any, stored: StoredQuery) -> Prepared:
        pipeline: Any = SimpleNamespace(graph=SimpleNamespace(levels=[()] * self.levels), tasks=lambda _: 1)
        return Prepared(named=named, stored=stored, pipeline=pipeline, is_new=False)

    def _run(self, known: Any, prepared: Prepared, _: object) -> None:
        known.running = SimpleNamespace(execution=None, was_begun=False)
        self.started.append(dict(prepared.stored.start))


def _cannot(*_: object) -> None:
    raise QueryError("it has a store of another kind")


def look_later(queries: BrokerQueries) -> None:
    for known in queries._supervised.values():
        if known.retry_at is not None:
            known.retry_at -= 60
    queries.watch()


def test_a_query_waits_until_ksqldb_has_left_its_group_and_starts_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service = Service(monkeypatch, tmp_path)
    queries = service.start()
    queries.note_done("command topic", list(queries.session.queries))
    queries.follow()
    look_later(queries)
    assert service.started == []
    assert service.said == ["it has members"]
    assert queries.progress()[QUERY][3] == "it has members"
    service.members = 0
    look_later(queries)
    assert service.started == [{("a", 0): 70}]
    assert queries.progress()[QUERY][3] == ""


def test_offsets_are_taken_over_by_a_later_start_and_only_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    service = Service(monkeypatch, tmp_path)
    first = service.start()
    first.note_done("command topic", list(first.session.queries))
    first.follow()
    assert service.started == []
    service.members = 0
    service.start().follow()
    # The offsets of ksqlDB are of no interest any more, whoever commits them.
    service.committed = {("a", 0): 5}
    service.start().follow()
    assert service.started == [{("a", 0): 70}] * 2
    assert service.folder.load().adopting == ()


def test_a_query_that_was_created_here_is_not_taken_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    service = Service(monkeypatch, tmp_path)
    service.start().follow()
    assert service.started == [{("a", 0): 0}]


def test_a_query_that_was_dropped_is_not_taken_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    service = Service(monkeypatch, tmp_path)
    queries = service.start()
    queries.note_done("command topic", list(queries.session.queries))
    queries.follow()
    queries.session.queries.clear()
    queries.follow()
    assert service.folder.load().adopting == ()


def test_a_query_with_state_is_refused_by_each_start_while_its_history_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service = Service(monkeypatch, tmp_path, levels=1, low=40)
    service.members = 0
    queries = service.start()
    queries.note_done("command topic", list(queries.session.queries))
    for again in (queries, service.start()):
        again.follow()
        error = again.progress()[QUERY][3]
        assert error.startswith(f"{QUERY} cannot be taken over")
        assert "a-0 begins at 40, and ksqlDB had read to 70" in error
    assert service.started == []
    service.low, service.rebuilds = 0, True
    service.start().follow()
    assert service.started == [{("a", 0): 0}]


def test_a_query_with_state_begins_anew_only_if_asked_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    service = Service(monkeypatch, tmp_path, levels=1)
    service.members = 0
    queries = service.start()
    queries.note_done("command topic", list(queries.session.queries))
    queries.follow()
    assert queries.progress()[QUERY][3] == (
        f"{QUERY} cannot be taken over: it has a store of another kind; and ksqlDB had read a-0 to 70"
    )
    # One that had read nothing repeats nothing.
    service.committed = {("a", 0): 0}
    service.start().follow()
    assert service.started == [{("a", 0): 0}]


def test_a_query_waits_for_a_transaction_that_is_open_in_its_sink(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service = Service(monkeypatch, tmp_path)
    service.members, service.is_open = 0, True
    queries = service.start()
    queries.note_done("command topic", list(queries.session.queries))
    queries.follow()
    assert service.started == []
    assert "no transaction is open in the topic B" in service.said[0]
    service.is_open = False
    look_later(queries)
    assert service.started == [{("a", 0): 70}]


@pytest.mark.parametrize(
    ("low", "committed", "is_lost"),
    [(0, {("a", 0): 9}, False), (3, {("a", 0): 9}, True), (3, {("a", 0): 2}, True), (3, {}, False)],
)
def test_history_is_gone_where_ksqldb_read_a_topic_that_begins_later(
    low: int, committed: dict[tuple[str, int], int], is_lost: bool
) -> None:
    try:
        check_history("q", {("a", 0): low}, committed, QueryError("it has no store"))
    except QueryError:
        assert is_lost
    else:
        assert not is_lost


def test_the_queries_to_take_over_stand_in_the_manifest(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(Manifest(adopting=("q", "r")))
    assert folder.load().adopting == ("q", "r")
    assert folder.load().without_query("q").adopting == ("r",)


@pytest.mark.parametrize(("members", "waits"), [([True, False], "comes back"), ([True, True], "it is not allowed")])
def test_members_that_cannot_be_removed_are_waited_for_unless_they_have_left(
    monkeypatch: pytest.MonkeyPatch, members: list[bool], waits: str
) -> None:
    def refuse(*_: object) -> None:
        raise QueryError("it is not allowed")

    none: Any = SimpleNamespace(spark=lambda: None)
    monkeypatch.setattr(Adoption, "_has_members", lambda *_: members.pop(0))
    monkeypatch.setattr(adoption, "remove_members", refuse)
    with pytest.raises(StillRunsError, match=waits):
        Adoption(none, "s_", lambda _: None, removes_members=True)._check_idle("g", QUERY, none)
    assert not members
