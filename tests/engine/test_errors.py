"""Tests how an error renders its position in the statement text."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import EngineError, Span, StatementError
from kestrel_sql.sql.parse.parser import parse_script


def rendered_source(text: str, span: Span) -> list[str]:
    return StatementError("no", span=span).render(text).splitlines()[1:]


@pytest.mark.rules("E7.4")
def test_code_position_message_and_hint() -> None:
    error = StatementError("no such thing", span=Span(2, 3, 2, 5), hint="try another")
    assert error.render() == "STATEMENT at 2:3: no such thing\n  hint: try another"
    assert EngineError("bad").render("text") == "ENGINE_ERROR: bad"


@pytest.mark.rules("E7.4")
def test_the_position_is_said_once() -> None:
    text = "SELECT a\nFROM s WHERE at = 1;"
    with pytest.raises(EngineError) as refused:
        parse_script(text)
    assert refused.value.message.startswith("line 2:14: Syntax Error")
    assert refused.value.render(text).splitlines() == [
        "SYNTAX at 2:14: Syntax error at or near 'at'",
        "    FROM s WHERE at = 1;",
        "                 ^^",
        "  hint: at is a reserved word; quote it to use it as a name: `at`",
    ]
    error = StatementError("Line: 2, Col: 3: no column", span=Span(2, 3, 2, 5))
    assert error.render() == "STATEMENT at 2:3: no column"


def test_a_syntax_error_of_which_ksqldb_says_nothing_has_words() -> None:
    with pytest.raises(EngineError) as refused:
        parse_script("SHOW STREAM;")
    assert refused.value.message == "line 1:6: Syntax Error\n\nStatement: SHOW STREAM;"
    assert refused.value.render("SHOW STREAM;").startswith("SYNTAX at 1:6: Syntax error\n    SHOW STREAM;\n")


def test_the_span_is_underlined() -> None:
    assert rendered_source("SELECT\n  ab FROM c;\n", Span(2, 6, 2, 10)) == ["    ab FROM c;", "       ^^^^"]


def test_blanks_before_the_statement_are_left_out() -> None:
    assert rendered_source(f"{' ' * 300}SELECT ab;", Span(1, 308, 1, 310)) == ["    SELECT ab;", "           ^^"]


def test_a_span_of_several_lines_is_underlined_to_the_end_of_its_first() -> None:
    assert rendered_source("abc\ndef", Span(1, 2, 2, 2)) == ["    abc", "     ^^"]


@pytest.mark.parametrize("other", ["\u2028", "\x85", "\x0b", "\x0c"])
def test_only_a_line_feed_ends_a_line(other: str) -> None:
    text = f"'a{other}b';\r\nxyz"
    assert EngineError("no", span=Span(2, 1, 2, 4)).render(text).split("\n")[1:] == ["    xyz", "    ^^^"]
    assert EngineError("no", span=Span(1, 6, 1, 7)).render(text).split("\n")[1:] == [f"    'a{other}b';", "         ^"]


def test_a_tab_before_the_span_is_repeated_in_the_underline() -> None:
    assert rendered_source("\tab\tc", Span(1, 5, 1, 6)) == ["    ab\tc", "      \t^"]


def test_a_place_outside_of_the_text_is_not_rendered_source() -> None:
    assert rendered_source("one line", Span(7, 1, 7, 2)) == []
    assert rendered_source("short", Span(1, 9, 1, 9)) == ["    short", "            ^"]
