"""Words syntax errors (rules E10): the position, then the most helpful detail."""

from __future__ import annotations

import msgspec

from kestrel_sql.errors import Span, SqlSyntaxError
from kestrel_sql.sql.keywords import KEYWORDS, RESERVED, STATEMENT_STARTS

_SYMBOLS = {
    "SEMICOLON": "';'",
    "LPAR": "'('",
    "COMMA": "','",
    "RPAR": "')'",
    "DOT": "'.'",
    "LSQB": "'['",
    "RSQB": "']'",
    "DEREFERENCE": "'->'",
    "ASSIGN": "':='",
    "ARROW": "'=>'",
    "EQ": "'='",
    "NEQ": "NEQ",
    "LT": "'<'",
    "LTE": "'<='",
    "GT": "'>'",
    "GTE": "'>='",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "ASTERISK": "'*'",
    "SLASH": "'/'",
    "PERCENT": "'%'",
    "CONCAT": "'||'",
}
_ORDER = {name: index for index, name in enumerate(_SYMBOLS)}
_LONGEST = 2 * max(map(len, STATEMENT_STARTS))
"""The letters of a word that are compared with the beginnings of statements; the rest makes all of them as unlike."""

_FEW = 3
_SOME = 16


class Failure(msgspec.Struct, frozen=True):
    """The parser's state where it stopped.

    `accepts` are the token types it would accept. `skippable` is set if it could go on without the offending token,
    `insertable` if it could go on after a closing parenthesis before that token.
    """

    token_type: str
    text: str
    span: Span
    accepts: frozenset[str]
    is_first: bool
    skippable: bool
    insertable: bool
    statement: str


def syntax_error(failure: Failure) -> SqlSyntaxError:
    """Return the error for a failure of the parser."""
    position = f"line {failure.span.line}:{failure.span.column}"
    lines = [f"{position}: Syntax Error", *_detail(failure, position), f"Statement: {failure.statement}"]
    return SqlSyntaxError("\n".join(lines), span=failure.span, hint=_hint(failure))


def _detail(failure: Failure, position: str) -> list[str]:
    reserved = failure.token_type in RESERVED
    wants_name = "IDENTIFIER" in failure.accepts
    if reserved and wants_name and failure.skippable:
        return [_reserved(failure)]
    if failure.is_first and failure.token_type != "$END":
        return [f"Unknown statement '{failure.text}'", f"Did you mean '{_nearest(failure.text.upper())}'?"]
    if failure.token_type == "$END":
        return ['Syntax error at or near ";"', "A closing bracket or the end of a clause is missing before it"]
    if failure.insertable:
        return [f"missing ')' at '{failure.text}'"]
    return _expectations(failure, position, wants_name)


def _expectations(failure: Failure, position: str, wants_name: bool) -> list[str]:
    accepts = failure.accepts
    # Inside a list, ANTLR expects the comma or the end, and leaves out the optional keywords before them.
    if {"COMMA", "RPAR"} <= accepts and "PLUS" not in accepts:
        accepts = frozenset({"COMMA", "RPAR"})
    if accepts and len(accepts) <= _FEW:
        shown = [_show(name) for name in sorted(accepts, key=_rank)]
        return [f"Expecting {shown[0] if len(shown) == 1 else '{' + ', '.join(shown) + '}'}"]
    if wants_name:
        return [f"Syntax error at or near '{failure.text}' at {position}"]
    return [""]


def _reserved(failure: Failure) -> str:
    return f'"{failure.text}" is a reserved keyword and cannot be an identifier unless it is quoted: `{failure.text}`'


def _hint(failure: Failure) -> str | None:
    if failure.token_type in RESERVED and "IDENTIFIER" in failure.accepts:
        return f"{failure.text} is a reserved word; quote it to use it as a name: `{failure.text}`"
    if _FEW < len(failure.accepts) <= _SOME:
        return f"expected one of {', '.join(_show(name) for name in sorted(failure.accepts, key=_rank))}"
    return None


def _show(name: str) -> str:
    if name == "$END":
        return "';'"
    return f"'{name}'" if name in KEYWORDS else _SYMBOLS.get(name, name)


def _rank(name: str) -> tuple[int, str]:
    if name in _ORDER:
        return _ORDER[name], name
    return (len(_ORDER) if name in KEYWORDS else len(_ORDER) + 1), name


def _nearest(word: str) -> str:
    return min(STATEMENT_STARTS, key=lambda start: _distance(word[:_LONGEST], start))


def _distance(left: str, right: str) -> int:
    """Return the Levenshtein distance of two words."""
    row = list(range(len(right) + 1))
    for index, a in enumerate(left, 1):
        previous, row = row, [index]
        for column, b in enumerate(right, 1):
            row.append(min(previous[column] + 1, row[-1] + 1, previous[column - 1] + (a != b)))
    return row[-1]
