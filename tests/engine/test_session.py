"""A session: what statements change, and that a refused one changes nothing."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import EngineError, RegistryError, StatementError, UnsupportedError
from kestrel_sql.session.session import Session

SOURCE = "CREATE STREAM s (k INT KEY, x INT) WITH (kafka_topic='s', format='JSON');"


def run(text: str, session: Session | None = None) -> Session:
    used = session or Session()
    for parsed in used.parse(text):
        used.execute(parsed)
    return used


def state(session: Session) -> tuple[object, ...]:
    schemas = session.registry.snapshot()
    return session.catalog, dict(session.queries), session.config, dict(session.variables), session.counter, schemas


@pytest.mark.rules("L10.1")
def test_queries_are_numbered_in_order_of_creation() -> None:
    session = run(
        SOURCE
        + "CREATE STREAM o AS SELECT * FROM s; INSERT INTO o SELECT * FROM s;"
        + "CREATE SOURCE TABLE t (k INT PRIMARY KEY, y INT) WITH (kafka_topic='t', format='JSON');"
        + "CREATE STREAM p AS SELECT * FROM o;"
    )
    assert list(session.queries) == ["CSAS_O_0", "INSERTQUERY_1", "CST_T_2", "CSAS_P_3"]


@pytest.mark.rules("L5.23")
def test_a_replaced_query_keeps_its_id() -> None:
    session = run(
        SOURCE + "CREATE STREAM o AS SELECT * FROM s; CREATE OR REPLACE STREAM o AS SELECT * FROM s WHERE x > 1;"
    )
    assert [(query.id, "WHERE" in query.statement_text) for query in session.queries.values()] == [("CSAS_O_0", True)]


def test_dropping_a_stream_removes_its_query() -> None:
    session = run(SOURCE + "CREATE STREAM o AS SELECT * FROM s; DROP STREAM o;")
    assert (list(session.queries), list(session.catalog.sources)) == ([], ["S"])


@pytest.mark.rules("L5.2", "L5.14")
def test_dropping_a_read_only_table_removes_its_query() -> None:
    made = "CREATE SOURCE TABLE t (k INT PRIMARY KEY, y INT) WITH (kafka_topic='t', format='JSON');"
    session = run(SOURCE + made + "DROP TABLE t;")
    assert (list(session.queries), list(session.catalog.sources)) == ([], ["S"])


@pytest.mark.rules("L5.14", "L5.32")
def test_what_reads_a_dropped_stream_is_named_with_its_inserts_first() -> None:
    session = run(SOURCE + "CREATE STREAM o AS SELECT * FROM s; INSERT INTO o SELECT * FROM s;")
    with pytest.raises(StatementError, match=r"queries read from this source: \[INSERTQUERY_1\]"):
        run("DROP STREAM s;", session)
    del session.queries["INSERTQUERY_1"]
    with pytest.raises(StatementError, match=r"tables read from this source: \[O\]"):
        run("DROP STREAM s;", session)


@pytest.mark.rules("E7.2")
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM o AS SELECT * FROM nowhere;",
        "CREATE STREAM s AS SELECT * FROM o;",
        "DROP STREAM s;",
        "DROP STREAM nowhere;",
        "CREATE TYPE a AS nowhere;",
        "SET 'no.such.thing'='1';",
        "CREATE STREAM bad AS SELECT k, x + 'a' AS y FROM s;",
        "CREATE STREAM bad WITH (kafka_topic='a b', format='AVRO') AS SELECT * FROM s;",
    ],
)
def test_a_refused_statement_changes_nothing(statement: str) -> None:
    session = run(SOURCE + "CREATE STREAM o AS SELECT * FROM s;")
    before = state(session)
    with pytest.raises(EngineError):
        run(statement, session)
    assert state(session) == before


def test_a_statement_that_the_registry_refuses_uses_no_query_number() -> None:
    session = run(SOURCE)
    before = state(session)
    with pytest.raises(RegistryError):
        run("CREATE STREAM o WITH (value_format='AVRO', value_schema_id=7) AS SELECT * FROM s;", session)
    assert state(session) == before


@pytest.mark.rules("L7.6")
def test_variables_are_replaced_unless_that_is_switched_off() -> None:
    session = run(SOURCE + "DEFINE name = 'x';")
    assert "X" in str(run("CREATE STREAM o AS SELECT k, ${name} FROM s;", session).catalog.sources["O"].schema)
    session = run("SET 'ksql.variable.substitution.enable'='false';", session)
    with pytest.raises(EngineError, match="name"):
        session.parse("CREATE STREAM p AS SELECT k, ${name} FROM s;")


def test_alter_system_without_a_server_says_what_to_write() -> None:
    session = Session()
    (parsed,) = session.parse("ALTER SYSTEM 'auto.offset.reset' = 'latest';")
    with pytest.raises(UnsupportedError, match="ALTER SYSTEM needs a server") as caught:
        session.execute(parsed)
    assert "SET 'NAME' = 'VALUE'" in (caught.value.hint or "")


def test_a_statement_that_is_not_planned_is_refused_with_a_hint() -> None:
    with pytest.raises(UnsupportedError, match="SHOW is not supported here") as caught:
        run("SHOW STREAMS;")
    assert "kestrel shell" in (caught.value.hint or "")
