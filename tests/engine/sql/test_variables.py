from __future__ import annotations

from itertools import pairwise

import pytest

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.parse.parser import parse_script, parse_statement
from kestrel_sql.sql.parse.variables import Variables


def last_statement(text: str, **variables: str) -> object:
    return parse_script(text, variables)[-1].statement


@pytest.mark.rules("L7.2", "L7.5")
def test_references_in_strings_are_replaced_and_unknown_ones_stay() -> None:
    assert last_statement("SET '${a}.x' = '${A}${b}';", a="it's") == parse_statement("SET 'it''s.x' = 'it''s${b}'")


@pytest.mark.rules("L7.3", "L7.4")
def test_a_value_can_be_an_identifier_or_a_literal() -> None:
    statement = last_statement(
        "CREATE STREAM ${n} WITH (a=${i}, b=${s}, c=${t}, d=${d}) AS SELECT ${q} FROM ${n};",
        n="out",
        i="-3",
        s="'x'",
        t="true",
        d="1.5",
        q="`mixed`",
    )
    assert statement == parse_statement(
        "CREATE STREAM OUT WITH (a=-3, b='x', c=TRUE, d=1.5) AS SELECT `mixed` FROM OUT"
    )


@pytest.mark.rules("L7.3")
@pytest.mark.parametrize("value", ["a b", "a; DROP STREAM b", "", "'a' 'b'", "a, b", "`a``; b`", "1 + 1", "--"])
def test_a_value_must_be_a_single_token(value: str) -> None:
    with pytest.raises(SqlSyntaxError, match=r"Illegal argument at line 1:15\. Got: '"):
        last_statement("SELECT * FROM ${x};", x=value)


def test_an_undefined_variable_outside_of_strings_is_an_error() -> None:
    with pytest.raises(SqlSyntaxError, match=r"Variable \$\{x\} is not defined"):
        last_statement("SELECT * FROM ${x};")


def test_define_affects_the_statements_after_it() -> None:
    script = "DEFINE x = 'a'; SET 'k' = '${x}'; DEFINE y = '${x}'; SET 'k' = '${y}'; UNDEFINE X; SET 'k' = '${x}';"
    values = [statement.statement for statement in parse_script(script, {})]
    assert values[1] == values[3] == parse_statement("SET 'k' = 'a'")
    assert values[5] == parse_statement("SET 'k' = '${x}'")


@pytest.mark.rules("L7.5")
def test_a_value_is_replaced_where_it_is_defined_and_not_where_it_is_used() -> None:
    script = "DEFINE t = 'topic_${env}'; DEFINE env = 'test'; SET 'k' = '${t}'; DEFINE u = '${t}'; SET 'k' = '${u}';"
    values = [statement.statement for statement in parse_script(script, {"env": "prod"})]
    assert values[2] == values[4] == parse_statement("SET 'k' = 'topic_prod'")
    assert last_statement("SET 'k' = '${a}';", a="${b}", b="c") == parse_statement("SET 'k' = '${b}'")


@pytest.mark.rules("L7.2")
@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("$${b}", "${b}"),
        ("$$${b}", "$${b}"),
        ("${n:-def}-${n:-}", "def-"),
        ("${b:-def}", "c"),
        ("${m:-a:-b}", "a:-b"),
        ("${n:-${b}}", "${b}"),
        ("${${b}}", "${${b}}"),
        ("${ b }", "${ b }"),
        ("$b {b} $", "$b {b} $"),
        ("${n:-it''s}", "it''s"),
    ],
)
def test_defaults_and_escapes_in_strings(text: str, replaced: str) -> None:
    assert last_statement(f"SET 'k' = '{text}';", b="c") == parse_statement(f"SET 'k' = '{replaced}'")


def test_variables_that_stand_for_too_much_are_refused_before_they_are_filled_in() -> None:
    values = {"a": "x" * 1000, "b": "'" + "x" * 1000 + "'"}
    for text in (f"SET 'k' = '{'${a}' * 1001}';", f"SELECT {', '.join(['${b}'] * 1001)} FROM s;"):
        with pytest.raises(SqlSyntaxError, match="may stand for 1000000 letters"):
            parse_script(text, values)
    growing = "".join(f"DEFINE {new} = '{f'${{{old}}}' * 100}';" for old, new in pairwise("acdef"))
    with pytest.raises(SqlSyntaxError, match="may stand for 1000000 letters"):
        parse_script(growing, values)


def test_without_variables_nothing_is_replaced() -> None:
    assert parse_script("DEFINE x = 'a'; SET 'k' = '${x}';")[1].statement == parse_statement("SET 'k' = '${x}'")


def test_variable_names_are_case_insensitive_identifiers() -> None:
    variables = Variables({"a": "1"}).define("B", "2").undefine("nothing")
    assert dict(variables.values) == {"a": "1", "B": "2"}
    assert dict(variables.define("A", "3").values) == {"a": "3", "B": "2"}
    with pytest.raises(SqlSyntaxError, match="Illegal variable name"):
        Variables({"a b": "1"})
