"""Queries of a server take turns: how much each takes at once."""

from __future__ import annotations

import pytest

from kestrel_sql.java.regex.time_limit import WorkTimeError, work_limit
from kestrel_sql.queries.running import Turn
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
    for parsed in engine.parse(TEXT):
        engine.define(engine.session.plan(parsed))
    for number in range(5_000):
        engine.broker.produce(Record(topic="s", key=number.to_bytes(4), value=b'{"V": 1}', timestamp=0))
    (name,) = engine.session.queries
    left = []
    while sum(engine.lags()[name].values()):
        left.append(sum(engine.lags()[name].values()))
        engine.advance(name)
    assert left[:3] == [5_000, 4_999, 4_997]
    assert engine.progress()[name][:3] == (5_000, 5_000, 0)


@pytest.mark.rules("R14.5")
def test_a_pull_query_of_many_rows_a_record_ends_in_time() -> None:
    engine = ServedEngine(Session(), by_time=True)
    *made, parsed = engine.parse(f"{TEXT} SELECT EXPLODE(GENERATE_SERIES(1, 20000)) AS n FROM s;")
    for each in made:
        engine.define(engine.session.plan(each))
    for number in range(1_000):
        engine.broker.produce(Record(topic="s", key=number.to_bytes(4), value=b'{"V": 1}', timestamp=0))
    assert isinstance(parsed.statement, Query)
    planned = engine.plan(parsed.statement, engine.session.config, "q")
    with work_limit(0.1), pytest.raises(WorkTimeError):
        engine.pull(planned, engine.session.config)


@pytest.mark.rules("R14.5")
def test_a_large_statement_is_planned_in_time() -> None:
    columns = ", ".join(f"v + {number}" for number in range(3_000))
    engine = ServedEngine(Session(), by_time=True)
    made, _, parsed = engine.parse(f"{TEXT} CREATE TABLE t AS SELECT COUNT(*) AS n FROM s GROUP BY {columns};")
    engine.define(engine.session.plan(made))
    with work_limit(0.05), pytest.raises(WorkTimeError):
        engine.session.plan(parsed)


@pytest.mark.rules("R14.5")
def test_a_statement_about_a_query_waits_for_no_record() -> None:
    engine = ServedEngine(Session(), by_time=True)
    for parsed in engine.parse(TEXT):
        engine.define(engine.session.plan(parsed))
    (name,) = engine.session.queries
    for number in range(10):
        engine.broker.produce(Record(topic="s", key=number.to_bytes(4), value=b'{"V": 1}', timestamp=0))
    for verb in ("PAUSE", "RESUME"):
        engine.control(ControlQuery(verb, name))
        assert engine.progress()[name][:3] == (0, 0, 10)
    engine.control(ControlQuery("TERMINATE", name))
    assert engine.broker.count("A") == 0
