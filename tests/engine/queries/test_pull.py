from __future__ import annotations

import pytest

from kestrel_sql.errors import EngineError, StatementError, UnknownSourceError
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.pull import current_messages, plan_pull
from kestrel_sql.queries.pull_lookup import named_keys
from kestrel_sql.queries.pull_rules import disjuncts
from kestrel_sql.queries.transient import QueryKind, TransientQuery
from kestrel_sql.session.session import Session
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import parse_expression, parse_statement
from kestrel_sql.topics.records import Record

SOURCES = """
CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE plain (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='plain', value_format='JSON');
CREATE SOURCE TABLE src (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='plain', value_format='JSON');
CREATE TABLE counts AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
CREATE TABLE numbers AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;
CREATE TABLE pairs WITH (key_format='JSON') AS SELECT k, v, COUNT(*) AS n FROM s GROUP BY k, v;
CREATE TABLE windows AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;
"""


@pytest.fixture(scope="module")
def session() -> Session:
    made = Session()
    for parsed in made.parse(SOURCES):
        made.execute(parsed)
    return made


def query(text: str) -> Query:
    statement = parse_statement(text)
    assert isinstance(statement, Query)
    return statement


def pull(session: Session, text: str, **properties: object) -> TransientQuery:
    return plan_pull(query(text), session.catalog, Config.of(properties), "q", session.functions)


@pytest.mark.parametrize(
    ("text", "schema", "kind"),
    [
        ("SELECT * FROM counts", "`K` STRING KEY, `N` BIGINT", QueryKind.PULL_TABLE),
        ("SELECT n, rowtime, k FROM counts", "`N` BIGINT, `ROWTIME` BIGINT, `K` STRING KEY", QueryKind.PULL_TABLE),
        ("SELECT k + 'x' AS y FROM counts c WHERE c.k = 'a'", "`Y` STRING", QueryKind.PULL_TABLE),
        ("SELECT * FROM src", "`K` STRING KEY, `V` INTEGER", QueryKind.PULL_TABLE),
        (
            "SELECT * FROM windows WHERE windowstart >= '2020-01-01'",
            "`K` STRING KEY, `WINDOWSTART` BIGINT KEY, `WINDOWEND` BIGINT KEY, `N` BIGINT",
            QueryKind.PULL_TABLE,
        ),
        ("SELECT * FROM s LIMIT 3", "`K` STRING, `V` INTEGER", QueryKind.PULL_STREAM),
    ],
)
def test_plans(session: Session, text: str, schema: str, kind: QueryKind) -> None:
    planned = pull(session, text)
    assert ", ".join(map(str, planned.columns)) == schema
    assert planned.kind is kind
    assert not planned.is_table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM s a JOIN s b WITHIN 1 SECOND ON a.k = b.k", "don't support JOIN clauses"),
        ("SELECT * FROM s WINDOW TUMBLING (SIZE 1 SECOND)", "don't support WINDOW clauses"),
        ("SELECT k, COUNT(*) FROM s GROUP BY k", "don't support GROUP BY clauses"),
        ("SELECT k FROM s PARTITION BY v", "don't support PARTITION BY clauses"),
        ("SELECT k FROM s HAVING v > 1", "don't support HAVING clauses"),
        ("SELECT k, ROWOFFSET FROM s", "columns in SELECT clauses: `ROWOFFSET`"),
        ("SELECT k FROM counts WHERE ROWPARTITION = 1", "columns in WHERE clauses: `ROWPARTITION`"),
        ("SELECT k FROM s LIMIT -1", "negative integers in the LIMIT clause"),
        ("SELECT COUNT(*) FROM counts", "don't support aggregate functions"),
        ("SELECT k, SUM(v) + 1 FROM s", "don't support aggregate functions"),
        ("SELECT EXPLODE(ARRAY[1, 2]) FROM counts", "not supported with table functions"),
        ("SELECT * FROM plain", "`PLAIN` table isn't queryable"),
        ("SELECT * FROM numbers WHERE v IN ('1', 2)", "'1' can not be converted"),
        ("SELECT * FROM numbers WHERE v IN (NULL)", "can not be NULL"),
    ],
)
def test_refuses(session: Session, text: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        pull(session, text)


def test_an_unknown_source(session: Session) -> None:
    with pytest.raises(UnknownSourceError):
        pull(session, "SELECT * FROM nothing")


@pytest.mark.parametrize(
    ("text", "properties", "message"),
    [
        ("SELECT * FROM counts", {}, "Missing WHERE clause"),
        ("SELECT * FROM counts WHERE n > 1", {}, "missing key column for disjunct"),
        ("SELECT * FROM counts WHERE k = 'a' OR n > 1", {}, "missing key column for disjunct"),
        ("SELECT * FROM counts WHERE k + 'x' = 'ax'", {}, "must directly reference a key column"),
        ("SELECT * FROM numbers WHERE v = n", {}, "resolvable expression"),
        ("SELECT * FROM counts WHERE k > 'a' AND k < 'c'", {}, "cannot be combined"),
        ("SELECT * FROM counts WHERE k BETWEEN 'a' AND 'c'", {}, "cannot be combined"),
        ("SELECT * FROM counts WHERE k > 'a'", {}, None),
        ("SELECT * FROM counts WHERE k > 'a'", {"ksql.query.pull.range.scan.enabled": False}, "requires table scan"),
        ("SELECT * FROM counts WHERE 'a' < k OR k = 'b'", {}, "requires table scan"),
        ("SELECT * FROM numbers WHERE v > 1", {}, "requires table scan"),
        ("SELECT * FROM counts WHERE k <> 'a'", {}, "requires table scan"),
        ("SELECT * FROM counts WHERE k IN ('a', 'b')", {}, None),
        ("SELECT * FROM pairs WHERE k = 'a'", {}, "must specify every key"),
        ("SELECT * FROM pairs WHERE k = 'a' AND v = 1 AND n > 3", {}, None),
        ("SELECT * FROM windows WHERE k = 'a' AND windowstart > 5", {}, None),
    ],
)
def test_where_must_restrict_the_key_without_table_scans(
    session: Session, text: str, properties: dict[str, object], message: str | None
) -> None:
    settings = {"ksql.query.pull.table.scan.enabled": False, **properties}
    if message is None:
        pull(session, text, **settings)
        return
    with pytest.raises(EngineError, match=message):
        pull(session, text, **settings)


def test_alternatives_of_a_condition() -> None:
    where: Expression = parse_expression("NOT (NOT a = 1 AND NOT b = 2) AND c IN (3, 4)")
    assert [[format_expression(part) for part in alternative] for alternative in disjuncts(where)] == [
        ["(A = 1)", "(C = 3)"],
        ["(A = 1)", "(C = 4)"],
        ["(B = 2)", "(C = 3)"],
        ["(B = 2)", "(C = 4)"],
    ]


def test_a_source_has_the_last_message_of_every_key() -> None:
    changelog = [(b"b", b"1"), (b"a", b"2"), (None, b"3"), (b"b", b"4"), (b"a", None), (b"c", None), (b"a", b"5")]
    records = [Record(topic="t", key=key, value=value, timestamp=at) for at, (key, value) in enumerate(changelog)]
    assert [(r.key, r.value) for r in current_messages(records)] == [(b"a", b"5"), (b"b", b"4")]


@pytest.mark.parametrize(
    ("table", "where", "keys"),
    [
        ("counts", "k = 'a'", (("a",),)),
        ("counts", "'a' = k AND n > 3", (("a",),)),
        ("counts", "k IN ('a', 'b') AND n > 3", (("a",), ("b",))),
        ("counts", "k = 'a' OR k = 'b' AND n = 1 OR k = 'a'", (("a",), ("b",))),
        ("counts", "k = UCASE('a')", (("A",),)),
        ("counts", "k = 'a' AND k = 'b'", (("a",),)),
        ("counts", "k = 'a' OR n = 1", None),
        ("counts", "k > 'a'", None),
        ("counts", "NOT k = 'a'", None),
        ("counts", "k = SUBSTRING(k, 1)", None),
        ("pairs", "k = 'a' AND v = 1", (("a", 1),)),
        ("pairs", "v IN (1, 2) AND k = 'a'", (("a", 1), ("a", 2))),
        ("pairs", "k = 'a'", None),
        ("numbers", "v = 3000000000", None),
        ("numbers", "v = 1.5", None),
        ("windows", "k = 'a' AND windowstart > 5", (("a",),)),
    ],
)
def test_keys_that_a_condition_names(session: Session, table: str, where: str, keys: tuple[object, ...] | None) -> None:
    source = session.catalog.sources[table.upper()]
    assert named_keys(parse_expression(where), source.schema.key, session.functions) == keys
