"""Queries that the planner refuses, with their messages and hints."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import StatementError
from tests.engine.planner.planning import plan

SOURCES = """
CREATE STREAM s (k INT KEY, a INT, b STRING, m MAP<STRING, INT>, l ARRAY<INT>) WITH (kafka_topic='s', format='JSON');
CREATE STREAM r (k INT KEY, c INT, d STRING) WITH (kafka_topic='r', format='JSON');
CREATE STREAM w (k INT KEY, c INT) WITH (kafka_topic='w', format='JSON', window_type='SESSION');
CREATE STREAM raw (k INT KEY, v INT) WITH (kafka_topic='raw', format='KAFKA');
CREATE TABLE t (k INT PRIMARY KEY, x INT) WITH (kafka_topic='t', format='JSON');
CREATE TABLE u (k INT PRIMARY KEY, y INT) WITH (kafka_topic='u', format='JSON');
CREATE TABLE v (k BIGINT PRIMARY KEY, z INT) WITH (kafka_topic='v', format='JSON');
"""

STREAMS = [
    ("SELECT k, zz FROM s", "SELECT column 'ZZ' cannot be resolved."),
    ("SELECT k, a FROM s WHERE zz = 1", "WHERE column 'ZZ' cannot be resolved."),
    ("SELECT k, a FROM s PARTITION BY zz", "'ZZ' must be a column in the source schema"),
    ("SELECT k, q.a FROM s", "'Q' is not a valid stream/table name or alias."),
    ("SELECT k, a FROM nowhere", "NOWHERE does not exist."),
    ("SELECT a FROM s", "must include the key column K in its projection (eg, SELECT K...)."),
    ("SELECT k, a FROM s PARTITION BY a + 1", "must include the partitioning expression (S.A + 1) in its projection"),
    ("SELECT k AS x, k AS y, a FROM s", "contains a key column (`K`) more than once, aliased as: X and Y."),
    ("SELECT k FROM s", "The projection contains no value columns."),
    ("SELECT k, a, b AS a FROM s", "Duplicate value columns found in schema: `A` STRING"),
    ("SELECT k, ROWTIME FROM s", "Reserved column name in select: `ROWTIME`."),
    (
        "SELECT k, a AS rowtime FROM s",
        "`ROWTIME` is a reserved column name. You cannot use it as an alias for a column.",
    ),
    ("SELECT k, NULL AS n FROM s", "Can't infer a type of null."),
    ("SELECT * FROM s PARTITION BY m", "Key column name: `M`. Column type: MAP<STRING, INTEGER>."),
    ("SELECT * FROM s PARTITION BY a, NULL", "Cannot PARTITION BY multiple columns including NULL"),
    ("SELECT * FROM w PARTITION BY c", "Implicit repartitioning of windowed sources is not supported."),
    (
        "SELECT * FROM s WHERE a",
        "Type error in WHERE expression: Should evaluate to boolean but is A (INTEGER) instead.",
    ),
    (
        "SELECT * FROM s WHERE a > 'x'",
        "Error in WHERE expression: Cannot compare A (INTEGER) to 'x' (STRING) with GREATER_THAN.",
    ),
    ("SELECT * FROM s WHERE COUNT(*) > 1", "WHERE does not support aggregate functions"),
    ("SELECT k, a FROM s EMIT FINAL", "EMIT FINAL is only supported for windowed aggregations."),
    ("SELECT k, a FROM s WINDOW TUMBLING (SIZE 1 SECOND)", "WINDOW clause requires a GROUP BY clause."),
    ("SELECT k, EXPLODE(ARRAY[EXPLODE(l)]) FROM s", "Table functions cannot be nested"),
    ("SELECT k, x FROM t", "Your SELECT query produces a TABLE. Please use CREATE TABLE AS SELECT"),
    (
        "SELECT * FROM s JOIN s x WITHIN 1 HOUR ON s.k = x.k",
        "Can not join 'S' to 'S': self joins are not yet supported.",
    ),
    ("SELECT * FROM s JOIN r WITHIN 1 HOUR ON s.k = k", "Column 'K' is ambiguous. Could be R.K or S.K."),
    ("SELECT * FROM s JOIN r WITHIN 1 HOUR ON s.k < r.k", "Only equality join criteria is supported."),
    ("SELECT * FROM s JOIN r WITHIN 1 HOUR ON s.k = 1", "Invalid comparison expression '1' in join '(S.K = 1)'."),
    ("SELECT * FROM s JOIN r WITHIN 1 HOUR ON s.k = s.a", "must reference exactly one source and not the same source."),
    ("SELECT * FROM s JOIN r WITHIN 1 HOUR ON s.k = r.d", "types don't match. Got S.K{INTEGER} = R.D{STRING}."),
    ("SELECT * FROM s JOIN r ON s.k = r.k", "must have a WITHIN clause"),
    ("SELECT * FROM s JOIN t WITHIN 1 HOUR ON s.k = t.k", "A window definition was provided for a Stream-Table join."),
    ("SELECT * FROM s JOIN t ON s.k = t.x", "require to join on the table's primary key. Got S.K = T.X."),
    (
        "SELECT * FROM s FULL JOIN t ON s.k = t.k",
        "full-outer join not supported for stream-table join. Got S [FULL] OUTER JOIN T.",
    ),
    (
        "SELECT * FROM t JOIN s ON s.k = t.k",
        "table-stream joins are not supported; only stream-table joins. Got T [INNER] JOIN S.",
    ),
    ("SELECT * FROM s JOIN w WITHIN 1 HOUR ON s.k = w.k", "`S` is not windowed\n`W` is SESSION windowed"),
    ("SELECT * FROM s JOIN raw WITHIN 1 HOUR ON s.k = raw.k", "Source(s) RAW are using the 'KAFKA' value format."),
    (
        "SELECT a, c FROM s JOIN r WITHIN 1 HOUR ON s.k = r.k",
        "include the join expressions S.K or R.K in its projection (eg, SELECT S.K",
    ),
    ("SELECT a FROM s FULL JOIN r WITHIN 1 HOUR ON s.k = r.k", "ROWKEY was added as a synthetic key column"),
    ("SELECT s.k, x, y FROM s JOIN t ON s.k = t.k JOIN u ON t.k = s.k", "is expected to reference the source (`U`)"),
]

TABLES = [
    ("SELECT a, COUNT(*) FROM s", "Non-aggregate SELECT expression(s) not part of GROUP BY: A"),
    ("SELECT COUNT(*) FROM s", "does not support aggregate function [COUNT(ROWTIME)] without a GROUP BY clause."),
    (
        "SELECT COUNT(*) FROM s GROUP BY a",
        "must include the grouping expression A in its projection (eg, SELECT A...).",
    ),
    ("SELECT a, b, COUNT(*) FROM s GROUP BY a", "Non-aggregate SELECT expression(s) not part of GROUP BY: B"),
    ("SELECT a FROM s GROUP BY a", "GROUP BY requires aggregate functions in either the SELECT or HAVING clause."),
    ("SELECT a, COUNT(*) FROM s GROUP BY a, a", "Duplicate GROUP BY expression: S.A"),
    ("SELECT a, COUNT(*) FROM s GROUP BY a, COUNT(*)", "GROUP BY does not support aggregate functions: COUNT"),
    ("SELECT a, COUNT(*) FROM s GROUP BY a HAVING b = 'x'", "Non-aggregate HAVING expression not part of GROUP BY"),
    ("SELECT a, a AS c, COUNT(*) FROM s GROUP BY a", "contains a key column more than once: `A` and `C`."),
    ("SELECT a, SUM(COUNT(*)) FROM s GROUP BY a", "Aggregate functions can not be nested"),
    ("SELECT a, EXPLODE(l), COUNT(*) FROM s GROUP BY a", "Table functions cannot be used with aggregations."),
    ("SELECT x, COUNT(*) FROM t WINDOW SESSION (1 HOUR) GROUP BY x", "Windowing not supported for table aggregations."),
    ("SELECT k, a FROM s", "Your SELECT query produces a STREAM. Please use CREATE STREAM AS SELECT"),
    ("SELECT x, LATEST_BY_OFFSET(k) FROM t GROUP BY x", "(LATEST_BY_OFFSET) cannot be applied to a table source"),
    (
        "SELECT a, MIN(WINDOWSTART) FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY a",
        "Window bounds column WINDOWSTART can only be used in the SELECT clause of windowed aggregations",
    ),
    (
        "SELECT c, COUNT(*) FROM w WINDOW TUMBLING (SIZE 1 HOUR) WHERE WINDOWSTART > 0 GROUP BY c",
        "Window bounds column WINDOWSTART can only be used in the SELECT clause of windowed aggregations",
    ),
    ("SELECT a, COUNT(*) FROM s WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 2 HOURS) GROUP BY a", "must advance by"),
    ("SELECT a, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 2 HOURS) GROUP BY a", "retention period"),
    ("SELECT t.k, x FROM t JOIN u ON t.x = u.y", "join on the primary key of the right input table. Got T.X = U.Y."),
    ("SELECT t.k, x, z FROM t JOIN v ON t.x = v.k", "types don't match. Got T.X{INTEGER} = V.K{BIGINT}."),
    ("SELECT x, y FROM t JOIN u ON t.x = u.k", "left input table (`T`). Missing column: `K`."),
    ("SELECT t.k, x, y FROM t RIGHT JOIN u ON t.x = u.k", "RIGHT OUTER JOIN on a foreign key is not supported"),
]


@pytest.mark.rules(
    "L9.5",
    "L4.2.2",
    "L5.26",
    "L9.3",
    "L9.4",
    "L9.6",
    "L9.7",
    "L9.8",
    "L9.9",
    "L9.10",
    "L9.11",
    "L9.12",
    "L9.13",
    "L9.14",
    "L9.19",
    "L9.20",
    "L9.22",
    "L9.23",
    "L9.29",
    "L9.33",
    "N1.6",
    "N1.7",
    "N2.3",
    "N2.4",
    "N6.4",
    "N7.1.2",
    "N7.1.3",
    "N7.2.5",
    "N7.2.6",
)
@pytest.mark.parametrize(("query", "message"), STREAMS, ids=[query for query, _ in STREAMS])
def test_refused_as_stream(query: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        plan(f"{SOURCES} CREATE STREAM out AS {query};")
    assert message in str(caught.value)


@pytest.mark.rules(
    "L9.3",
    "L9.12",
    "L9.15",
    "L9.16",
    "L9.24",
    "L9.25",
    "L9.26",
    "L9.27",
    "L9.28",
    "L9.29",
    "L9.30",
    "L9.31",
    "L9.33",
    "N7.3.2",
    "N7.4.5",
    "O8.4",
    "O8.10",
)
@pytest.mark.parametrize(("query", "message"), TABLES, ids=[query for query, _ in TABLES])
def test_refused_as_table(query: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        plan(f"{SOURCES} CREATE TABLE out AS {query};")
    assert message in str(caught.value)


@pytest.mark.rules("L9.34", "L9.35", "N10.1")
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("INSERT INTO t SELECT * FROM s;", "INSERT INTO can only be used to insert into a stream. T is a table."),
        ("INSERT INTO nowhere SELECT * FROM s;", "Source `NOWHERE` does not exist."),
        ("INSERT INTO r SELECT k, a, b FROM s;", "Incompatible schema between results and sink."),
    ],
)
def test_refused_inserts(query: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        plan(SOURCES + query)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT kk, a FROM s", "did you mean K?"),
        ("SELECT s.cc FROM s JOIN r WITHIN 1 HOUR ON s.k = r.k", None),
        ("SELECT r.dd FROM s JOIN r WITHIN 1 HOUR ON s.k = r.k", "did you mean D?"),
        ("SELECT q.a FROM s", "the sources of this query are S"),
        ("SELECT k, a FROM ss", "did you mean S?"),
        ("SELECT k, UCAS(b) AS c FROM s", "did you mean UCASE?"),
        ("SELECT k, CAST(a AS STRNG) AS c FROM s", "did you mean STRING?"),
        ("SELECT k, CAST(a AS address) AS c FROM s", "create it first: CREATE TYPE `ADDRESS` AS ...;"),
        ("SELECT k, a FROM s WHERE a = b", "write CAST(B AS INTEGER)"),
        ("SELECT k, a + b AS c FROM s", "write CAST(B AS DOUBLE)"),
        ("SELECT k, a LIKE 'x' AS c FROM s", "write CAST(A AS STRING)"),
        ("SELECT k, CASE WHEN TRUE THEN b ELSE a END AS c FROM s", "write CAST(A AS STRING)"),
        ("SELECT k, a FROM s WHERE m = l", None),
    ],
)
def test_hints_suggest_a_correction(query: str, hint: str | None) -> None:
    with pytest.raises(StatementError) as caught:
        plan(f"{SOURCES} CREATE STREAM out AS {query};")
    assert caught.value.hint == hint
