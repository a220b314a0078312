from __future__ import annotations

import decimal
import random
from collections.abc import Callable

import pytest

from kestrel_sql.sql.format.statements import (
    format_expression,
    format_identifier,
    format_statement,
    format_type,
    format_window,
)
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.parse.parser import parse_expression, parse_statement, parse_type, parse_window

EXPRESSIONS = [
    ("a + b * 2", "(A + (B * 2))"),
    ("(a + b) * -2", "((A + B) * -2)"),
    ("a - -1", "(A - -1)"),
    ("- - a", "- -A"),
    ("-(1)", "-(1)"),
    ("+a % 3 / s.b", "((+A % 3) / S.B)"),
    ("a || b || 'c'", "CONCAT(CONCAT(A, B), 'c')"),
    ("not a = b and c or d", "(((NOT (A = B)) AND C) OR D)"),
    ("a != 1", "(A <> 1)"),
    ("a is not distinct from b", "(A IS NOT DISTINCT FROM B)"),
    ("a IS DISTINCT FROM null", "(A IS DISTINCT FROM null)"),
    ("a not between 1 and 2 + 3", "(NOT (A BETWEEN 1 AND (2 + 3)))"),
    ("a not in (1, 2)", "(NOT (A IN (1, 2)))"),
    ("a not like 'x%' escape '!'", "(NOT (A LIKE 'x%' ESCAPE '!'))"),
    ("a is null and b is not null", "((A IS NULL) AND (B IS NOT NULL))"),
    ("case when a then 1 when b then 2 else 3 end", "(CASE WHEN A THEN 1 WHEN B THEN 2 ELSE 3 END)"),
    ("case a when 1 then 2 end", "(CASE A WHEN 1 THEN 2 END)"),
    ("cast(a as struct<x int, `y z` array<decimal(4,2)>>)", "CAST(A AS STRUCT<X INTEGER, `y z` ARRAY<DECIMAL(4, 2)>>)"),
    ("array[1, 2][1]", "ARRAY[1, 2][1]"),
    ("`ARRAY`[1]", "`ARRAY`[1]"),
    ("map('k' := 1)['k']", "MAP('k':=1)['k']"),
    ("map()", "MAP()"),
    ("struct(a := 1, `select` := 2)->a", "STRUCT(A:=1, `select`:=2)->A"),
    ("s.a->b[1]->`c d`", "S.A->B[1]->`c d`"),
    ("count(*)", "COUNT(*)"),
    ("now()", "NOW()"),
    ("f(a, x => x + y, (k, v) => k)", "F(A, (X) => (X + Y), (K, V) => K)"),
    ("f(days, 1)", "F(DAYS, 1)"),
    ("f(millisecond)", "F(MILLISECONDS)"),
    ("1.", "1."),
    (".05", "0.05"),
    ("-1.50", "-1.50"),
    ("1.5e3", "1.5E3"),
    ("1e-5", "1E-5"),
    ("0E0", "0E0"),
    ("9223372036854775807", "9223372036854775807"),
    ("-9223372036854775808", "-9223372036854775808"),
    ("'it''s'", "'it''s'"),
    ("true = FALSE", "(true = false)"),
    ("\"DECIMAL\" '1.5'", "1.5"),
    ("a at time zone 'UTC'", "(A AT TIME ZONE 'UTC')"),
    ("(-a)[1]", "(-A)[1]"),
    ("1r0 + `1E5` + s.`1R`", "((1R0 + `1E5`) + S.`1R`)"),
    ("date + interval + `from`", "((DATE + INTERVAL) + `from`)"),
    ('"Mixed"" ` case"', '`Mixed" `` case`'),
]

STATEMENTS = [
    "SELECT * FROM s EMIT CHANGES",
    "SELECT a, b AS c, d e, s.*, x->y->*, * FROM s AS t WHERE a > 1 LIMIT 3",
    "SELECT a FROM s AS emit EMIT FINAL",
    (
        "SELECT a, count(*) FROM s WINDOW TUMBLING (SIZE 1 DAY, RETENTION 2 DAYS, GRACE PERIOD 1 HOUR) GROUP "
        "BY a EMIT FINAL"
    ),
    (
        "SELECT a FROM s WINDOW w HOPPING (SIZE 5 MINUTES, ADVANCE BY 1 MINUTE) WHERE b GROUP BY a, (b) "
        "PARTITION BY c HAVING count(*) > 1"
    ),
    "SELECT a FROM s WINDOW SESSION (5 SECONDS) GROUP BY (a, b)",
    "SELECT a FROM s WINDOW session SESSION (5 MILLISECONDS, GRACE PERIOD 0 SECONDS) GROUP BY ()",
    "SELECT a FROM l JOIN r WITHIN 1 HOUR ON l.a = r.a LEFT JOIN t ON l.a = t.a",
    "SELECT a FROM l INNER JOIN r AS q WITHIN (1 HOUR, 2 HOURS) GRACE PERIOD 1 DAY ON l.a = q.a",
    "SELECT a FROM l RIGHT OUTER JOIN t ON a = b FULL OUTER JOIN u v ON a = b",
    (
        "CREATE STREAM s (k INT KEY, v STRUCT<a MAP<STRING, BIGINT>>) WITH (kafka_topic='t', 'partitions'=1, "
        "wrap_single_value=false)"
    ),
    "CREATE OR REPLACE TABLE IF NOT EXISTS t (k VARCHAR(10) PRIMARY KEY, h ARRAY<STRUCT<key STRING>> HEADERS)",
    "CREATE TABLE t (h2 BYTES HEADER('a''b'), e STRUCT<>, c my_type, o INT ARRAY)",
    "CREATE SOURCE TABLE t (k INT PRIMARY KEY) WITH (a=null, b=-1, c=1.5, d=1E3)",
    "CREATE STREAM s",
    "CREATE OR REPLACE STREAM IF NOT EXISTS o WITH (format='JSON') AS SELECT a FROM s",
    "CREATE TABLE o AS SELECT a, b FROM s GROUP BY a",
    "CREATE SINK CONNECTOR IF NOT EXISTS c WITH ('connector.class'='x')",
    "CREATE SOURCE CONNECTOR `c d` WITH (a='x')",
    "CREATE TYPE IF NOT EXISTS t AS STRUCT<a INT>",
    "INSERT INTO s WITH (query_id='q') SELECT * FROM t",
    "INSERT INTO s SELECT * FROM t",
    "INSERT INTO s (a, `b`) VALUES (1, -2.5)",
    "INSERT INTO s VALUES ()",
    "DROP STREAM IF EXISTS s DELETE TOPIC",
    "DROP TABLE t",
    "DROP TYPE IF EXISTS t",
    "DROP CONNECTOR c",
    "ALTER STREAM s ADD COLUMN a INT, ADD b STRING",
    "SET 'a' = 'b'",
    "UNSET 'a'",
    "ALTER SYSTEM 'a' = 'b'",
    "DEFINE a = 'it''s'",
    "UNDEFINE a",
    *(
        f"SHOW {what}"
        for what in (
            "PROPERTIES",
            "TOPICS",
            "ALL TOPICS EXTENDED",
            "STREAMS EXTENDED",
            "TABLES",
            "QUERIES EXTENDED",
            "FUNCTIONS",
            "CONNECTORS",
            "SOURCE CONNECTORS",
            "SINK CONNECTORS",
            "CONNECTOR PLUGINS",
            "TYPES",
            "VARIABLES",
        )
    ),
    "DESCRIBE s EXTENDED",
    "DESCRIBE STREAMS",
    "DESCRIBE TABLES EXTENDED",
    "DESCRIBE `TABLES`",
    "DESCRIBE FUNCTION f",
    "DESCRIBE function",
    "DESCRIBE CONNECTOR c",
    "PRINT lowerCase FROM BEGINNING INTERVAL 2 LIMIT 3",
    "PRINT 'a-b' SAMPLE 2",
    "TERMINATE ALL",
    "PAUSE q_1",
    "RESUME `q`",
    "EXPLAIN q",
    "EXPLAIN set",
    "EXPLAIN SELECT * FROM s",
    "EXPLAIN CREATE STREAM a AS SELECT * FROM s",
    "ASSERT TOPIC t WITH (partitions=1) TIMEOUT 3 SECONDS",
    "ASSERT NOT EXISTS TOPIC 't'",
    "ASSERT SCHEMA SUBJECT s ID 3 TIMEOUT 1 MINUTE",
    "ASSERT NOT EXISTS SCHEMA ID 3",
]

TEST_STATEMENTS = [
    "ASSERT VALUES s (a, b) VALUES (1, 'x')",
    "ASSERT VALUES s VALUES (1)",
    "ASSERT NULL VALUES s (k) KEY (1)",
    "ASSERT STREAM s (k INT KEY) WITH (kafka_topic='t')",
    "ASSERT TABLE t",
    "RUN SCRIPT 'a.sql'",
]


@pytest.mark.rules("E11.2", "E11.3", "E11.4")
@pytest.mark.parametrize(("text", "canonical"), EXPRESSIONS)
def test_expressions_have_a_canonical_form_that_round_trips(text: str, canonical: str) -> None:
    expression = parse_expression(text)
    assert format_expression(expression) == canonical
    assert parse_expression(canonical) == expression


@pytest.mark.parametrize("text", [*STATEMENTS, *TEST_STATEMENTS])
def test_statements_round_trip(text: str) -> None:
    statement = parse_statement(text, test_statements=True)
    written = format_statement(statement)
    assert parse_statement(written, test_statements=True) == statement
    assert format_statement(parse_statement(written, test_statements=True)) == written


@pytest.mark.rules("E11.1")
def test_each_clause_of_a_query_has_a_line() -> None:
    text = (
        "create stream o as select a, b c from l join r within 1 minute on l.a = r.a where a > 1 partition "
        "by a emit changes;"
    )
    assert format_statement(parse_statement(text)) == (
        "CREATE STREAM O AS SELECT\n  A,\n  B C\nFROM L L\nINNER JOIN R R WITHIN 1 MINUTES ON ((L.A = R.A))\n"
        "WHERE (A > 1)\nPARTITION BY A\nEMIT CHANGES"
    )


def test_windows_are_written_as_in_old_plans() -> None:
    text = "HOPPING ( SIZE 30 SECONDS , ADVANCE BY 10 SECONDS , GRACE PERIOD 1 MINUTES )"
    assert format_window(parse_window(f" {text} ")) == text


@pytest.mark.parametrize(
    "text", ["MAP<STRING, ARRAY<DECIMAL(4, 2)>>", "STRUCT<A INTEGER, `b` STRUCT< >>", "CUSTOM", "`custom`"]
)
def test_types_round_trip(text: str) -> None:
    assert format_type(parse_type(text)) == text


@pytest.mark.rules("L1.13")
@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("A", "A"),
        ("A_1@", "A_1@"),
        ("a", "`a`"),
        ("FROM", "`FROM`"),
        ("DATE", "DATE"),
        ("A`B", "`A``B`"),
        ("", "``"),
        ("1R", "1R"),
        ("12", "`12`"),
    ],
)
def test_identifiers_are_quoted_only_where_needed(name: str, written: str) -> None:
    assert format_identifier(name) == written


LEAVES: list[e.Expression] = [
    e.NullLiteral(),
    e.BooleanLiteral(True),
    e.IntegerLiteral(7),
    e.IntegerLiteral(-7),
    e.DecimalLiteral(decimal.Decimal("-1.20")),
    e.DecimalLiteral(decimal.Decimal(3)),
    e.DoubleLiteral(-2.5e-7),
    e.StringLiteral("it's -- `\n\" ${x}"),
    e.ColumnRef("A"),
    e.ColumnRef("ARRAY"),
    e.ColumnRef("1R", "S"),
    e.ColumnRef("a b", "FROM"),
]
NAMES = ("X", "y", "MAP", "LEFT", "1R")


def random_expression(dice: random.Random, depth: int) -> e.Expression:
    if depth == 0:
        return dice.choice(LEAVES)

    def child() -> e.Expression:
        return random_expression(dice, dice.randrange(depth))

    def several() -> tuple[e.Expression, ...]:
        return tuple(child() for _ in range(dice.randrange(3)))

    def call() -> e.Expression:
        arguments = several()
        body = e.Arithmetic(e.ArithmeticOp.ADD, e.LambdaVariable("p"), child())
        return e.FunctionCall(
            dice.choice(("F", "MAP", "LEFT", "COUNT")), (*arguments, *((e.Lambda(("p",), body),) if arguments else ()))
        )

    branches = (e.When(child(), child()), e.When(child(), child()))
    makers: list[Callable[[], e.Expression]] = [
        lambda: e.Not(child()),
        lambda: e.Logical(dice.choice(list(e.LogicalOp)), child(), child()),
        lambda: e.Comparison(dice.choice(list(e.ComparisonOp)), child(), child()),
        lambda: e.Arithmetic(dice.choice(list(e.ArithmeticOp)), child(), child()),
        lambda: e.Negate(child()),
        lambda: e.UnaryPlus(child()),
        lambda: e.IsNull(child()),
        lambda: e.IsNotNull(child()),
        lambda: e.Between(child(), child(), child()),
        lambda: e.InList(child(), (child(), *several())),
        lambda: e.Like(child(), child(), dice.choice((None, "!", "'"))),
        lambda: e.Case(branches, dice.choice((None, child()))),
        lambda: e.SimpleCase(child(), branches, dice.choice((None, child()))),
        lambda: e.Cast(child(), parse_type("STRUCT<A INT, `b` MAP<STRING, T>>")),
        lambda: e.ArrayConstructor(several()),
        lambda: e.MapConstructor(tuple((child(), child()) for _ in range(dice.randrange(3)))),
        lambda: e.StructConstructor(tuple((dice.choice(NAMES), child()) for _ in range(dice.randrange(3)))),
        lambda: e.Subscript(child(), child()),
        lambda: e.Dereference(child(), dice.choice(NAMES)),
        lambda: e.AtTimeZone(child(), "UTC"),
        call,
    ]
    return dice.choice(makers)()


@pytest.mark.rules("E11.4")
@pytest.mark.parametrize("seed", range(300))
def test_random_expressions_round_trip(seed: int) -> None:
    expression = random_expression(random.Random(seed), 5)
    written = format_expression(expression)
    assert parse_expression(written) == expression, written
