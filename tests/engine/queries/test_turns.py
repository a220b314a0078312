"""Queries of a server take turns: how much each takes at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kestrel_sql.admin.answer import Answer
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import QueryError
from kestrel_sql.java.regex.time_limit import WorkTimeError, work_limit
from kestrel_sql.process.execution import ProcessExecution
from kestrel_sql.queries import engine as queries
from kestrel_sql.queries.persistent import Turn
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.admin import ControlQuery
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.topics.records import Record

TEXT = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM a AS SELECT * FROM s;
"""


@pytest.mark.rules("R14.5")
def test_a_turn_is_as_long_as_the_last_ones_allow() -> None:
    turn, sizes = Turn(), []
    for _ in range(20):
        sizes.append(turn.size)
        turn.took(turn.size, turn.size * 0.000_05)
    assert sizes[:4] == [1, 2, 4, 8]
    assert sizes[-1] == 2_000
    turn.took(2_000, 400.0)
    assert turn.size == 1


@pytest.mark.rules("R14.5")
def test_a_query_takes_turns_however_many_records_wait() -> None:
    engine = ServedEngine(Session(), by_time=True)
    for parsed in engine.session.parse(TEXT):
        engine.define(engine.session.plan(parsed))
    for number in range(5_000):
        engine.broker.produce(Record(topic="s", key=number.to_bytes(4), value=b'{"V": 1}', timestamp=0))
    (name,) = engine.session.queries
    left = []
    while sum(engine.queries.lags()[name].values()):
        left.append(sum(engine.queries.lags()[name].values()))
        engine.advance(name)
    assert left[:3] == [5_000, 4_999, 4_997]
    assert engine.queries.progress()[name][:3] == (5_000, 5_000, 0)


@pytest.mark.rules("R14.5")
def test_a_pull_query_of_many_rows_a_record_ends_in_time() -> None:
    engine = ServedEngine(Session(), by_time=True)
    *made, parsed = engine.session.parse(f"{TEXT} SELECT EXPLODE(GENERATE_SERIES(1, 20000)) AS n FROM s;")
    for each in made:
        engine.define(engine.session.plan(each))
    for number in range(1_000):
        engine.broker.produce(Record(topic="s", key=number.to_bytes(4), value=b'{"V": 1}', timestamp=0))
    assert isinstance(parsed.statement, Query)
    planned = engine.plan(parsed.statement, engine.session.config, "q")
    with work_limit(0.1), pytest.raises(WorkTimeError):
        engine.answer(planned, engine.session.config)


def asked(text: str, count: int) -> Answer:
    """Ask a pull query of so many records, as work for a request."""
    engine = ServedEngine(Session(), by_time=True)
    *made, parsed = engine.session.parse(f"{TEXT} {text}")
    for each in made:
        engine.define(engine.session.plan(each))
    for number in range(count):
        engine.broker.produce(Record(topic="s", key=number.to_bytes(4), value=b'{"V": 1}', timestamp=0))
    assert isinstance(parsed.statement, Query)
    with work_limit(60):
        return engine.answer(engine.plan(parsed.statement, engine.session.config, "q"), engine.session.config)


@pytest.mark.rules("R14.6")
def test_a_pull_query_reads_no_further_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    advance, read = ProcessExecution.advance, list[int]()

    def note(execution: ProcessExecution, records: Sequence[Record]) -> Output:
        read.append(len(records))
        return advance(execution, records)

    monkeypatch.setattr(ProcessExecution, "advance", note)
    found = asked("SELECT EXPLODE(GENERATE_SERIES(1, 10)) AS n FROM s LIMIT 11;", 1_000)
    assert [row for (row,) in found.rows] == [*range(1, 11), 1]
    assert found.limited
    assert sum(read) <= 3


@pytest.mark.rules("R14.6")
def test_an_answer_has_a_limit_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_MOST_ROWS", 100)
    with pytest.raises(QueryError, match="An answer has at most 100 rows") as caught:
        asked("SELECT EXPLODE(GENERATE_SERIES(1, 10)) AS n FROM s;", 1_000)
    assert "LIMIT" in (caught.value.hint or "")


@pytest.mark.rules("R14.6")
def test_a_request_makes_few_rows_of_one() -> None:
    assert len(asked("SELECT EXPLODE(GENERATE_SERIES(1, 65536)) AS n FROM s;", 1).rows) == 65_536
    assert asked("SELECT EXPLODE(GENERATE_SERIES(1, 65537)) AS n FROM s;", 1).rows == ()


@pytest.mark.rules("R14.5")
def test_a_large_statement_is_planned_in_time() -> None:
    columns = ", ".join(f"v + {number}" for number in range(3_000))
    engine = ServedEngine(Session(), by_time=True)
    made, _, parsed = engine.session.parse(f"{TEXT} CREATE TABLE t AS SELECT COUNT(*) AS n FROM s GROUP BY {columns};")
    engine.define(engine.session.plan(made))
    with work_limit(0.05), pytest.raises(WorkTimeError):
        engine.session.plan(parsed)


@pytest.mark.rules("R14.5")
def test_a_statement_about_a_query_waits_for_no_record() -> None:
    engine = ServedEngine(Session(), by_time=True)
    for parsed in engine.session.parse(TEXT):
        engine.define(engine.session.plan(parsed))
    (name,) = engine.session.queries
    for number in range(10):
        engine.broker.produce(Record(topic="s", key=number.to_bytes(4), value=b'{"V": 1}', timestamp=0))
    for verb in ("PAUSE", "RESUME"):
        engine.control(ControlQuery(verb, name))
        assert engine.queries.progress()[name][:3] == (0, 0, 10)
    engine.control(ControlQuery("TERMINATE", name))
    assert engine.broker.count("A") == 0
