"""Tests pull queries over the state of a query in this process."""

from __future__ import annotations

import pytest

from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.queryable import QueryableTable, queryable_table
from kestrel_sql.process.execution import ProcessExecution
from kestrel_sql.queries.pull import materialises, plan_pull
from kestrel_sql.queries.pull_state import TableReader, pull_rows
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import parse_statement
from kestrel_sql.topics.records import LogEntry, Record

SETUP = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE sums AS SELECT k AS id, SUM(v) AS total, COUNT(*) AS n FROM s GROUP BY k HAVING SUM(v) > 10;
CREATE TABLE plain (k INT PRIMARY KEY, v INT) WITH (kafka_topic='plain', value_format='JSON');
CREATE TABLE copies AS SELECT k, v + 1 AS w FROM plain;
CREATE TABLE sparse AS SELECT k, v FROM plain WHERE v > 5;
CREATE SOURCE TABLE src (k INT PRIMARY KEY, v INT) WITH (kafka_topic='plain', value_format='JSON');
CREATE TABLE joined AS SELECT a.k AS k, a.v AS x, b.v AS y FROM plain a LEFT JOIN src b ON a.k = b.k;
CREATE TABLE proto WITH (value_format='PROTOBUF') AS SELECT k, CAST(NULL AS BIGINT) AS z, COUNT(*) AS n FROM s GROUP BY k;
"""


@pytest.fixture(scope="module")
def session() -> Session:
    made = Session()
    for parsed in made.parse(SETUP):
        made.execute(parsed)
    return made


def run_of(session: Session, table: str, *, queryable: bool = True, replaceable: bool = False) -> QueryRun:
    source = session.catalog.sources[table]
    query = next(each for each in session.queries.values() if materialises(each.plan, source))
    return QueryRun(
        plan=query.plan,
        settings=query.config,
        serde=session.serde(),
        queryable=queryable,
        replaceable=replaceable,
    )


def kept(session: Session, table: str, *, queryable: bool = True) -> QueryableTable | None:
    run = run_of(session, table, queryable=queryable)
    return queryable_table(build_graph([run], session.functions), 0, run.plan.physical_plan)


def reader(session: Session, table: str, rows: list[tuple[int, int]]) -> TableReader:
    """A table whose query read these values of K and V, at the timestamps 0, 1, …"""
    execution = ProcessExecution(run_of(session, table), session.functions)
    execution.advance(
        [
            Record(topic="s", key=key.to_bytes(4, "big"), value=b'{"V":%d}' % number, timestamp=at, offset=at)
            for at, (key, number) in enumerate(rows)
        ]
    )
    stored = execution.table()
    assert stored is not None
    return TableReader(
        source=session.catalog.sources[table],
        stored=stored,
        functions=session.functions,
        settings={},
        serde=session.serde(),
        query_id="q",
    )


def ask(session: Session, table: TableReader, text: str, log: list[LogEntry] | None = None) -> list[tuple[object, ...]]:
    statement = parse_statement(text)
    assert isinstance(statement, Query)
    planned = plan_pull(statement, session.catalog, session.config, "q", session.functions)
    return [row.values for row in pull_rows(planned, table, [] if log is None else log)]


def test_a_look_up_reads_the_rows_of_its_keys(session: Session) -> None:
    table = reader(session, "SUMS", [(key, key) for key in range(100)])
    assert [entry.value[0] for entry in table.stored.entries(((42,),))] == [42]
    assert ask(session, table, "SELECT * FROM sums WHERE id = 42;") == [(42, 42, 1)]
    assert ask(session, table, "SELECT total + 1 AS t, ROWTIME FROM sums WHERE id IN (12, 9, 50);") == [
        (13, 12),
        (51, 50),
    ]
    assert ask(session, table, "SELECT id FROM sums WHERE total > 95 LIMIT 2;") == [(96,), (97,)]


@pytest.mark.rules("R9.6")
def test_a_failing_expression_is_null_or_false_and_is_logged(session: Session) -> None:
    table = reader(session, "SUMS", [(20, 20)])
    log: list[LogEntry] = []
    assert ask(session, table, "SELECT id / (n - 1) AS x FROM sums;", log) == [(None,)]
    assert ask(session, table, "SELECT id FROM sums WHERE id / (n - 1) = 1;", log) == []
    assert [(entry.kind, entry.message.split(" (")[0]) for entry in log] == [
        (1, "Error computing expression"),
        (1, "Error evaluating predicate"),
    ]


def test_a_store_gives_rows_as_the_sinks_format_does(session: Session) -> None:
    table = reader(session, "PROTO", [(1, 1)])
    assert ask(session, table, "SELECT * FROM proto;") == [(1, 0, 1)]


@pytest.mark.parametrize(
    ("table", "operator", "steps"),
    [
        ("SUMS", "StreamAggregate", ["tableFilterV1", "tableSelectV1"]),
        ("COPIES", "TableStore", []),
        ("SPARSE", "TableStore", []),
        ("SRC", "TableStore", []),
        ("JOINED", "TableStore", []),
    ],
)
def test_where_tables_are_materialised(session: Session, table: str, operator: str, steps: list[str]) -> None:
    found = kept(session, table)
    assert found is not None
    assert type(found.stateful.operator).__name__ == operator
    assert [step.tag for step in found.steps] == steps
    if operator == "TableStore":
        assert kept(session, table, queryable=False) is None


def test_a_replaceable_query_has_the_same_operators_with_and_without_a_filter(session: Session) -> None:
    def operators(table: str) -> list[str]:
        graph = build_graph([run_of(session, table, replaceable=True)], session.functions)
        return [type(each.operator).__name__ for level in graph.levels for each in level]

    assert operators("COPIES") == operators("SPARSE") == ["Materialise", "TableStore"]
    assert operators("SUMS") == ["StreamAggregate"]
