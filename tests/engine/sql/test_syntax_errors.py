from __future__ import annotations

import re

import pytest

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.parse import syntax_errors
from kestrel_sql.sql.parse.parser import parse_script


@pytest.mark.rules("E10.1", "E10.2", "E10.3", "E10.4", "L2.10")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CREATE STREAM s (k DOUBLE (KEY));",
            "line 1:28: Syntax Error\nExpecting {'STRING', INTEGER_VALUE}\nStatement: CREATE",
        ),
        ("CREATE STREAM s (k VARCHAR(3) (KEY));", "line 1:31: Syntax Error\nExpecting {',', ')'}\nStatement: "),
        (
            "SELCT * FROM s;",
            "line 1:1: Syntax Error\nUnknown statement 'SELCT'\nDid you mean 'SELECT'?\nStatement: SELCT * FROM s;",
        ),
        ("SELECT cast(a AS null) FROM s;", "line 1:18: Syntax Error\nSyntax error at or near 'null' at line 1:18\n"),
        ("SELECT a FROM s GROUP BY b, (c, d);", "line 1:31: Syntax Error\nmissing ')' at ','\n"),
        ("SELECT (a FROM s", "line 1:11: Syntax Error\nmissing ')' at 'FROM'"),
        ("SELECT f(a", 'line 1:11: Syntax Error\nSyntax error at or near ";"\n'),
        ("SELECT a FROM s", 'line 1:16: Syntax Error\nSyntax error at or near ";"\n'),
        ("SELECT a from from s;", '"from" is a reserved keyword'),
        ("SELECT a FROM s WHERE a ? 1;", "line 1:25: Syntax Error\nSyntax error at or near '?' at line 1:25"),
        ("SELECT 'a FROM s;", "line 1:8: Syntax Error"),
        ("SELECT a FROM s WHERE a = 1 = 2;", "line 1:29: Syntax Error"),
        ("SELECT a FROM s WHERE a IN ();", "line 1:29: Syntax Error"),
        ("SELECT a FROM s GROUP BY a AND b;", "line 1:28: Syntax Error"),
        ("SELECT a FROM ${s};", "Variable ${s} is not replaced"),
    ],
)
def test_a_syntax_error_names_position_and_cause(text: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError, match=re.escape(message)) as caught:
        parse_script(text)
    assert caught.value.span is not None


def test_the_hint_lists_a_moderate_number_of_expected_tokens() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_script("SELECT a FROM s WINDOW TUMBLING (SIZE 1 WEEK) GROUP BY a;")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("expected one of 'DAY', 'DAYS', 'HOUR'")


def test_a_reserved_word_used_as_a_name_gets_a_hint() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_script("CREATE STREAM s (size INT);")
    assert caught.value.hint == "size is a reserved word; quote it to use it as a name: `size`"


def test_a_long_word_is_compared_by_its_beginning(monkeypatch):
    compared = []
    distance = syntax_errors._distance
    monkeypatch.setattr(syntax_errors, "_distance", lambda *words: compared.append(words) or distance(*words))
    with pytest.raises(SqlSyntaxError, match="Did you mean 'SELECT'"):
        parse_script("select" + "x" * 100_000 + ";")
    assert max(len(word) for words in compared for word in words) < 100
