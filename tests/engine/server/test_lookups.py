"""Pull queries by key that differ in their constant only are parsed and planned once."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kestrel_sql.admin.answer import Answer
from kestrel_sql.formats.windowed_key import join
from kestrel_sql.queries.key_lookup import key_lookup
from kestrel_sql.queries.pull import plan_pull
from kestrel_sql.queries.pull_state import pull_rows
from kestrel_sql.queries.transient import TransientQuery, answer_with
from kestrel_sql.server.broker.tables import Rows, TableTopic, TopicTable
from kestrel_sql.server.service import Request
from kestrel_sql.server.serving.lookups import Lookups
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import Query

DDL = """
    CREATE STREAM events (id INT KEY, n INT, v STRING, since TIMESTAMP)
      WITH (KAFKA_TOPIC='e', VALUE_FORMAT='JSON', PARTITIONS=2);
    CREATE TABLE sums AS SELECT id, COUNT(*) AS c, MAX(n) AS m FROM events GROUP BY id;
    CREATE TABLE counts AS SELECT id, COUNT(*) AS c FROM events WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;
    CREATE TABLE words AS SELECT v, COUNT(*) AS c FROM events GROUP BY v;
    CREATE TABLE times WITH (KEY_FORMAT='JSON') AS SELECT since, COUNT(*) AS c FROM events GROUP BY since;
"""


@pytest.fixture(scope="module")
def session() -> Session:
    session = Session()
    for parsed in session.parse(DDL):
        session.execute(parsed)
    return session


def table_of(session: Session, name: str, rows: Rows) -> TopicTable:
    source = session.catalog.sources[name]
    topic = SimpleNamespace(source=source, partitions=2, rows=rows, lock=threading.Lock(), wait=lambda: None)
    return TopicTable(
        topic=cast(TableTopic, topic), functions=session.functions, settings=session.config, serde=session.serde()
    )


def planned(session: Session, text: str) -> TransientQuery:
    (parsed,) = session.parse(text)
    assert isinstance(parsed.statement, Query)
    return plan_pull(parsed.statement, session.catalog, session.config, "q", session.functions)


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


@pytest.mark.parametrize("columns", ["*", "c, id", "m AS x, id, ROWTIME AS t"])
def test_a_look_up_answers_as_the_query_itself(session: Session, columns: str) -> None:
    rows = Rows(0)
    for key in range(5):
        rows.write([(0, number(key), b'{"C":%d,"M":%d}' % (key, -key), 7, ())])
    table = table_of(session, "SUMS", rows)
    text = f"SELECT {columns} FROM sums WHERE id = "
    found = key_lookup(planned(session, f"{text}0;"), table, [])
    assert found is not None
    for key in (0, 3, 4, 9):
        query = planned(session, f"{text}{key};")
        assert found.answer(key) == answer_with(query, pull_rows(query, table, []))


def test_a_look_up_finds_all_windows_in_their_order(session: Session) -> None:
    window = session.catalog.sources["COUNTS"].window
    assert window is not None
    rows = Rows(8)
    for start in (7_200_000, 0, 3_600_000):
        rows.write([(0, join(number(1), (start, start + 3_600_000), window), b'{"C":%d}' % start, 7, ())])
    table = table_of(session, "COUNTS", rows)
    query = planned(session, "SELECT * FROM counts WHERE id = 1;")
    found = key_lookup(query, table, [])
    assert found is not None
    answer = found.answer(1)
    assert [row[1] for row in answer.rows] == [0, 3_600_000, 7_200_000]
    assert answer == answer_with(query, pull_rows(query, table, []))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM sums WHERE id > 1;",
        "SELECT * FROM sums WHERE id = 1 AND c = 2;",
        "SELECT * FROM sums WHERE c = 1;",
        "SELECT * FROM sums WHERE id = 1 LIMIT 1;",
        "SELECT * FROM sums WHERE id = 10000000000;",
        "SELECT ABS(m) AS x FROM sums WHERE id = 1;",
        "SELECT c + m AS x, id FROM sums WHERE id = 1;",
        "SELECT * FROM times WHERE since = '2020-01-01';",
    ],
)
def test_other_conditions_are_no_look_ups(session: Session, text: str) -> None:
    query = planned(session, text)
    assert key_lookup(query, table_of(session, query.source, Rows(0)), []) is None


def asked(text: str, **more: Any) -> Request:
    return Request(text=text, **more)


def known(session: Session, *texts: str) -> Lookups:
    lookups = Lookups()
    for text in texts:
        lookups.remember(asked(text), session.parse(text))
    return lookups


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SELECT * FROM sums WHERE id = 1;", "SELECT * FROM sums WHERE id = 207 ;"),
        ("SELECT * FROM words WHERE v = 'a';", "SELECT * FROM words WHERE v = 'it; -- \"is\"';"),
        ("SELECT * FROM words WHERE v = '';", "SELECT * FROM words WHERE v = 'b';"),
    ],
)
def test_a_statement_is_parsed_once_for_all_constants(session: Session, first: str, second: str) -> None:
    found = known(session, first).parsed(asked(second))
    assert found is not None
    assert found.statement == session.parse(second)[0].statement
    assert found.text == second


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SELECT * FROM sums WHERE id = 1;", "SELECT * FROM sums WHERE c = 1;"),
        ("SELECT * FROM sums WHERE id = 1;", "SELECT * FROM sums WHERE id = 1"),
        ("SELECT * FROM sums WHERE id = 1;", "SELECT * FROM sums WHERE id = '1';"),
        ("SELECT * FROM sums WHERE id = 1;", "SELECT * FROM sums WHERE id = 3000000000;"),
        ("SELECT * FROM sums WHERE id = 1;", "SELECT * FROM sums WHERE id = 1; SELECT 2;"),
        ("SELECT * FROM sums WHERE id = 1 AND c = 2;", "SELECT * FROM sums WHERE id = 1 AND c = 3;"),
        ("SELECT * FROM sums WHERE id = 5 -- c = 5\n;", "SELECT * FROM sums WHERE id = 5 -- c = 6\n;"),
        ("SELECT * FROM sums WHERE id = 5 /* c = 5;", "SELECT * FROM sums WHERE id = 5 /* c = 6;"),
        ("SELECT * FROM sums WHERE id <= 5;", "SELECT * FROM sums WHERE id = 6;"),
        ("SELECT * FROM words WHERE v = 'a';", "SELECT * FROM words WHERE v = 'a''b';"),
        ("SELECT * FROM words WHERE v = 'a';", "SELECT * FROM words WHERE v = '${a}';"),
        ("SELECT 'x' FROM words WHERE v = 'a';", "SELECT 'x' FROM words WHERE v = 'b';"),
    ],
)
def test_what_may_be_parsed_otherwise_is_parsed(session: Session, first: str, second: str) -> None:
    lookups = Lookups()
    try:
        lookups.remember(asked(first), session.parse(first))
    except Exception:  # noqa: BLE001 - a comment that does not end is no statement
        return
    assert lookups.parsed(asked(second)) is None


def test_variables_catalogs_and_properties_are_told_apart(session: Session) -> None:
    text = "SELECT * FROM sums WHERE id = 1;"
    lookups, answer = known(session, text), Answer(columns=(), rows=((1,),))
    assert lookups.parsed(asked(text, variables={"a": "b"})) is None
    lookups.plan(asked(text), session.catalog, session.config, lambda constant: answer if constant == 2 else None)
    again = asked("SELECT * FROM sums WHERE id = 2;")
    assert lookups.answer(again, session.catalog, session.config) is answer
    earliest = asked(again.text, properties={"auto.offset.reset": "earliest"})
    assert lookups.answer(earliest, session.catalog, session.config) is None
    many = asked(again.text, properties={f"consumer.{number}": "1" for number in range(100)})
    lookups.plan(many, session.catalog, session.config, lambda _: answer)
    assert lookups.answer(many, session.catalog, session.config) is None
    assert lookups.answer(again, Session().catalog, session.config) is None
    assert lookups.answer(again, session.catalog, Session().config) is None


@pytest.mark.rules("L5.12")
def test_windows_stay_as_long_as_their_retention_after_the_newest_of_their_partition(session: Session) -> None:
    window = session.catalog.sources["COUNTS"].window
    assert window is not None
    keys = {start: join(number(1), (start, start + 3_600_000), window) for start in (0, 10, 11, 30)}
    rows = Rows(8, retention_ms=20)
    rows.write([(0, keys[0], b"{}", 7, ()), (1, keys[10], b"{}", 7, ())])
    rows.write([(0, keys[30], b"{}", 7, ())], 1)
    assert set(rows.by_key) == {keys[0], keys[10], keys[30]}
    rows.write([(2, keys[30], b"{}", 7, ())])
    assert set(rows.by_key) == {keys[10], keys[30]}
    assert {key for key, _, _ in rows.find(number(1))} == {keys[10], keys[30]}
