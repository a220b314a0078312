from __future__ import annotations

import decimal
import re
import time

import pytest
from lark import Tree

from kestrel_sql.errors import Span, SqlSyntaxError
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.keywords import KAFKA_KEYWORDS, KEYWORDS, NON_RESERVED, RESERVED, STATEMENT_STARTS
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.nesting import MAX_DEPTH, MAX_LETTERS, MAX_TERMS, MAX_TOKENS
from kestrel_sql.sql.parse.parser import (
    grammar,
    parse_columns,
    parse_expression,
    parse_schema,
    parse_script,
    parse_select_item,
    parse_statement,
    parse_type,
    place_of,
    statements_of,
)
from kestrel_sql.sql.parse.statements import StatementRules
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column, Role


def test_every_rule_of_the_grammar_has_a_builder() -> None:
    rules = {rule.alias or rule.origin.name for rule in grammar().rules if rule.alias or not rule.options.expand1}
    inlined = {name for name in rules if name.startswith("_")}
    assert {name for name in rules - inlined - {"script"} if not hasattr(StatementRules, name)} == set()


def test_the_grammar_accepts_each_non_reserved_keyword_as_a_name() -> None:
    names = {
        rule.expansion[0].name
        for rule in grammar().rules
        if rule.origin.name in ("_alias_word", "_word") and rule.expansion[0].is_term
    }
    assert names - {"IDENTIFIER", "QUOTED_IDENTIFIER", "DIGIT_IDENTIFIER", "VARIABLE"} == NON_RESERVED


def test_every_declared_terminal_is_a_keyword() -> None:
    terminals = {symbol.name for rule in grammar().rules for symbol in rule.expansion if symbol.is_term}
    assert terminals - {terminal.name for terminal in grammar().terminals} <= KEYWORDS | KAFKA_KEYWORDS
    assert not RESERVED & NON_RESERVED
    assert not KAFKA_KEYWORDS & KEYWORDS
    assert set(STATEMENT_STARTS) <= KEYWORDS


@pytest.mark.rules("L1.12")
@pytest.mark.parametrize("word", sorted(NON_RESERVED))
def test_a_non_reserved_keyword_is_a_name(word: str) -> None:
    assert parse_expression(f"{word.lower()} + 1") == parse_expression(f"`{word}` + 1")


@pytest.mark.rules("L1.12")
@pytest.mark.parametrize("word", sorted(RESERVED - {"NULL", "TRUE", "FALSE"}))
def test_a_reserved_word_is_a_name_only_if_quoted(word: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_expression(word)
    assert parse_expression(f"`{word}`") == e.ColumnRef(word)


def test_lambda_parameters_are_bound_only_in_the_body() -> None:
    call = parse_expression("f(x, x => g(x, y => x + y + s.x + z), y => y)")
    total: e.Expression = e.LambdaVariable("X")
    for term in (e.LambdaVariable("Y"), e.ColumnRef("X", "S"), e.ColumnRef("Z")):
        total = e.Arithmetic(e.ArithmeticOp.ADD, total, term)
    inner = e.Lambda(("Y",), total)
    outer = e.Lambda(("X",), e.FunctionCall("G", (e.LambdaVariable("X"), inner)))
    assert call == e.FunctionCall("F", (e.ColumnRef("X"), outer, e.Lambda(("Y",), e.LambdaVariable("Y"))))


@pytest.mark.parametrize("text", ["f(x => x)", "f(a, (x + 1) => x)", "f(a, (s.x) => x)", "x => x"])
def test_a_lambda_needs_an_argument_before_it_and_plain_parameters(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_expression(text)


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.00"), ("0E0", "-0E0"), ("1", "1."), ("1.0", "1E0")])
def test_literals_of_equal_value_but_different_text_differ(one: str, other: str) -> None:
    assert parse_expression(one) != parse_expression(other)
    assert len({parse_expression(text) for text in (one, other, one)}) == 2


def test_exact_literals_are_expanded_to_plain_digits() -> None:
    assert parse_expression(""" "DECIMAL" '1.5E3' """) == e.DecimalLiteral(decimal.Decimal(1500))
    assert parse_expression(""" "DECIMAL" '-0.0' """) == e.DecimalLiteral(decimal.Decimal("0.0"))
    assert parse_expression("-" + "0" * 5000 + "7") == e.IntegerLiteral(-7)


NESTED = [("ABS(", ")"), ("NOT ", ""), ("ARRAY[", "]"), ("(1 + ", ")"), ("CAST(", " AS INT)")]
CHAINS = ("+", "%", "OR", "AND", "||")


@pytest.mark.rules("R14.6")
@pytest.mark.parametrize(("start", "end"), [("", ""), ("'", "'"), ("`", "`"), ("1", "")])
def test_a_word_has_a_limit_of_letters(start: str, end: str) -> None:
    letters = "1" * (MAX_LETTERS + 1 - len(start) - len(end))
    with pytest.raises(SqlSyntaxError, match="A word, number or text may have 1048576 letters") as caught:
        parse_script(f"SELECT\n {start}{letters}{end} FROM s;")
    assert caught.value.span is not None
    assert caught.value.span.line == 2


@pytest.mark.rules("L2.13")
@pytest.mark.parametrize(
    "expression",
    [
        *(f"{start * (MAX_DEPTH + 1)}x{end * (MAX_DEPTH + 1)}" for start, end in NESTED),
        *(f"x{f' {operator} x' * MAX_TERMS}" for operator in CHAINS),
        "TRANSFORM(a, q => " + "ABS(" * 2000 + "q" + ")" * 2001,
        "CAST(x AS " + "ARRAY<" * MAX_DEPTH + "INT" + ">" * MAX_DEPTH + ")",
        *(
            f"{start}{'1, ' * (MAX_TOKENS // 2)}1{end}"
            for start, end in (("x IN (", ")"), ("ARRAY[", "]"), ("f(", ")"))
        ),
        "(" * MAX_TOKENS,
    ],
)
def test_too_large_expressions_are_rejected(expression: str) -> None:
    with pytest.raises(SqlSyntaxError, match="The statement is too large: it may have 100000 words and") as caught:
        parse_script(f"\nSELECT {expression} FROM s;")
    assert caught.value.span is not None
    assert caught.value.span.line == 2


@pytest.mark.rules("L2.13")
@pytest.mark.parametrize(
    "expression",
    [
        *(f"{start * (MAX_DEPTH - 4)}x{end * (MAX_DEPTH - 4)}" for start, end in NESTED),
        *(f"x{f' {operator} x' * (MAX_TERMS - 1)}" for operator in CHAINS),
        "(x" + " + x" * 100 + ") * f(x" + " - x" * 99 + ")",
        "x IN (" + ", ".join(f"x = {number}" for number in range(3000)) + ")",
    ],
)
def test_expressions_up_to_the_limits_are_written_and_read(expression: str) -> None:
    (parsed,) = parse_script(f"SELECT {expression} FROM s;")
    text = format_statement(parsed.statement)
    assert format_statement(parse_statement(text)) == text


@pytest.mark.parametrize("operator", CHAINS)
def test_a_chain_that_is_too_long_is_refused_before_the_rest_is_read(operator: str) -> None:
    with pytest.raises(SqlSyntaxError, match="too large"):
        parse_script(f"SELECT x{f' {operator} (x)' * 2 * MAX_TERMS} FROM;")


def test_many_columns_and_statements_are_not_too_large() -> None:
    columns = ", ".join(f"c{number} INT" for number in range(10_000))
    assert len(parse_script(f"CREATE STREAM s ({columns});" + "SET 'a'='b';" * 100)) == 101


@pytest.mark.parametrize("start", ["", "SELECT ", "SELECT 1 "])
def test_a_comment_that_is_not_closed_is_named(start: str) -> None:
    with pytest.raises(SqlSyntaxError, match=f"at or near '/' at line 1:{len(start) + 1}$") as caught:
        parse_script(f"{start}/* ; /* ; SELECT 1 FROM s;")
    assert caught.value.hint == "the comment opened here is never closed"


@pytest.mark.parametrize(
    "chain", ["1" + "+1" * (MAX_TERMS - 2), "TRUE" + " AND TRUE" * (MAX_TERMS - 2)], ids=["sum", "condition"]
)
def test_an_error_behind_a_long_chain_is_a_syntax_error(chain: str) -> None:
    for text in (f"SELECT ABS({chain} FROM s;", f"SELECT ARRAY[({chain} , 1] FROM s;", f"SELECT f({chain} x) FROM s;"):
        with pytest.raises(SqlSyntaxError):
            parse_script(text)


def test_the_longest_time_span_parses() -> None:
    parse_statement("SELECT * FROM s WINDOW TUMBLING (SIZE 106751991167 DAYS)")


def test_parentheses_and_long_lists_are_not_deep() -> None:
    assert parse_expression("(" * 3000 + "x" + ")" * 3000) == e.ColumnRef("X")
    assert len(parse_expression(f"ARRAY[{'1, ' * 5000}1]").items) == 5001  # type: ignore[union-attr]


def test_spans_count_lines_and_columns_from_1() -> None:
    expression = parse_expression("a +\n  cast(b AS INT)")
    assert isinstance(expression, e.Arithmetic)
    assert expression.span == Span(1, 1, 2, 17)
    assert expression.right.span == Span(2, 3, 2, 17)


def test_a_script_keeps_text_and_span_of_each_statement() -> None:
    first, second = parse_script("-- a note\nSET 'a'='b'; --@ directive\n\n /* ; */ DROP TYPE t ;\n")
    assert first.text == "SET 'a'='b';"
    assert first.span == Span(2, 1, 2, 13)
    assert second.text == "DROP TYPE t ;"
    assert second.statement == s.DropType("T")


@pytest.mark.rules("E7.1")
def test_a_script_fails_at_its_first_error() -> None:
    with pytest.raises(SqlSyntaxError, match=r"^line 2:8: Syntax Error") as caught:
        parse_script("SET 'a'='b';\nSELECT FROM x;")
    assert caught.value.span == Span(2, 8, 2, 12)


def test_test_statements_need_to_be_enabled() -> None:
    assert parse_script("RUN SCRIPT 'x';", test_statements=True)
    with pytest.raises(SqlSyntaxError, match=r"line 1:1: Syntax Error\nUnknown statement 'RUN'\nDid you mean"):
        parse_script("RUN SCRIPT 'x';")


@pytest.mark.rules("E7.1")
@pytest.mark.parametrize(("text", "column"), [(";", 1), (" ; ", 2), ("DROP TYPE t;;", 13), ("/* ; */;DROP TYPE t;", 8)])
def test_a_semicolon_without_a_statement_is_a_syntax_error(text: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError, match=rf"^line 1:{column}: Syntax Error\nUnknown statement ';'\n"):
        parse_script(text)


@pytest.mark.parametrize("text", ["", "SET 'a'='b'; SET 'c'='d';"])
def test_parse_statement_accepts_exactly_one(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match="expected one statement"):
        parse_statement(text)


@pytest.mark.rules("P4.6")
def test_a_select_item_ends_with_its_alias() -> None:
    expected = (e.Cast(e.ColumnRef("A"), t.INTEGER), "as B")
    assert parse_select_item("CAST(A AS INT) AS `as B`") == expected


@pytest.mark.rules("P4.5")
def test_a_schema_string_parses_to_columns() -> None:
    text = (
        "`V` VARCHAR, `K` INT KEY, `P` BIGINT PRIMARY KEY, `H` BYTES HEADER('x'), `A` ARRAY<STRUCT<`KEY` "
        "STRING, `VALUE` BYTES>> HEADERS"
    )
    assert parse_columns(text) == (
        Column("V", t.STRING),
        Column("K", t.INTEGER, Role.KEY),
        Column("P", t.BIGINT, Role.KEY),
        Column("H", t.BYTES, Role.HEADERS, "x"),
        Column("A", t.HEADERS_TYPE, Role.HEADERS),
    )
    assert [column.name for column in parse_schema(text).columns] == ["V", "K", "P", "H", "A"]
    assert [column.name for column in parse_schema(text).keys_first] == ["K", "P", "V", "H", "A"]
    assert parse_columns(" ") == ()


def test_custom_types_keep_their_name() -> None:
    assert parse_type("MAP<STRING, address>") == t.Map(t.STRING, t.NamedType("ADDRESS"))


@pytest.mark.parametrize(
    "text", ["DECIMAL(0, 0)", "DECIMAL(2, 3)", "DECIMAL(2, -1)", "DECIMAL(2.5, 1)", "DECIMAL", "ARRAY<INT", "NULL"]
)
def test_invalid_types_are_rejected(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT 9223372036854775808 FROM s;",
            "Failed to prepare statement: line 1:9: Invalid numeric literal: 9223372036854775808",
        ),
        (f"SELECT {'9' * 5000} FROM s;", "Failed to prepare statement: line 1:9: Invalid numeric literal: 999"),
        ("""SELECT "DECIMAL" 'NaN' FROM s;""", "Invalid numeric literal: NaN"),
        ("""SELECT "DECIMAL" ' 1_0' FROM s;""", "Invalid numeric literal:  1_0"),
        ("""SELECT "DECIMAL" '1E999999999' FROM s;""", "Invalid numeric literal: 1E999999999"),
        ("SELECT 1E400 FROM s;", "Number overflows DOUBLE: 1E400"),
        ("CREATE STREAM `a.b` (k INT);", "Source names may only contain alphanumeric values, '_' or '-'"),
        ("SELECT * FROM s LIMIT 1.5;", "an integer is needed"),
        ("SELECT * FROM s WINDOW TUMBLING (SIZE 106751991168 DAYS);", "106751991168 DAYS is too long"),
        ("SELECT * FROM s JOIN r WITHIN 99999999999999999 HOURS ON a = b;", "99999999999999999 HOURS is too long"),
        ("SELECT \"TIME\" '1' FROM s;", "Unknown type: TIME"),
    ],
)
def test_the_builders_reject_what_the_grammar_accepts(text: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError, match=re.escape(message)):
        parse_script(text)


def test_topics_keep_their_case() -> None:
    assert parse_statement("PRINT Some_Topic").topic == "Some_Topic"  # type: ignore[union-attr]


def test_a_typical_statement_parses_within_20_ms() -> None:
    text = (
        "CREATE STREAM O AS SELECT A.K, A.V + 1 AS W, UCASE(B.S) FROM A JOIN B WITHIN 1 HOUR ON A.K = B.K "
        "WHERE A.V > 3 AND B.S LIKE 'x%';"
    )
    parse_statement(text)
    started = time.perf_counter()
    for _ in range(20):
        parse_statement(text)
    assert (time.perf_counter() - started) / 20 < 0.02


def test_a_statement_behind_an_unreadable_one_has_its_place() -> None:
    unreadable, following = statements_of("PRINT a#\n b; PRINT c;")
    assert unreadable.error is not None
    assert place_of(following) == Span(2, 5, 2, 10)


def test_the_result_is_no_raw_tree() -> None:
    assert not isinstance(parse_statement("SELECT a FROM b"), Tree)
