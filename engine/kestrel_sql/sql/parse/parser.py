"""Parses scripts, statements, and the SQL fragments that plans contain."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from lark import Lark

from kestrel_sql.errors import Span, SqlSyntaxError
from kestrel_sql.java.regex.time_limit import check_work
from kestrel_sql.sql.nodes.admin import Statement
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import (
    DefineVariable,
    Element,
    ElementRole,
    SelectExpression,
    UndefineVariable,
    Window,
)
from kestrel_sql.sql.parse.grammar_tables import parser_of
from kestrel_sql.sql.parse.lalr import END, Stacks, Tables, tables_of
from kestrel_sql.sql.parse.nesting import MAX_DEPTH, MAX_TERMS, is_long_chain, is_too_large, too_large
from kestrel_sql.sql.parse.statements import StatementRules
from kestrel_sql.sql.parse.syntax_errors import Failure, syntax_error
from kestrel_sql.sql.parse.tokens import (
    StatementTokens,
    Token,
    filled_in,
    pattern_of,
    span_of,
    split_statements,
    substitute,
    tokenize,
    with_aliases,
    with_kafka_keywords,
)
from kestrel_sql.sql.parse.variables import Variables
from kestrel_sql.types.schema import Column, Role, Schema
from kestrel_sql.types.sql_types import SqlType

# No text is parsed as `script`; the rule makes the semicolon a token of the grammar.
_STARTS = [
    "statement",
    "test_statement",
    "script",
    "expression",
    "aliased_expression",
    "window_expression",
    "schema",
    "type",
]
_LONG = 4_000
"""Longer statements (characters) are not kept."""

_TOP = 8
"""How many values of the parser's stack are looked at; a chain that grows is among them."""

_ROLES = {
    ElementRole.NONE: Role.VALUE,
    ElementRole.KEY: Role.KEY,
    ElementRole.PRIMARY_KEY: Role.KEY,
    ElementRole.HEADERS: Role.HEADERS,
    ElementRole.HEADER: Role.HEADERS,
}


class ParsedStatement(msgspec.Struct, frozen=True):
    """A statement of a script, with its own text and its position in the script.

    Attributes:
        statement: the statement.
        text: its text, with variables filled in.
        span: where it stands in the script.
        written: its text as it was written, None if it is the same.
    """

    statement: Statement
    text: str
    span: Span
    written: str | None = None


def parse_script(
    text: str, variables: Mapping[str, str] | None = None, *, test_statements: bool = False, most: int | None = None
) -> tuple[ParsedStatement, ...]:
    """Parse statements that each end with a semicolon; raise at the first error, whatever parsed before it.

    With `variables`, replace `${name}` references; DEFINE and UNDEFINE in the script change them. With None, replace
    nothing. `test_statements` also accepts the statements of SQL tests (ASSERT VALUES, RUN SCRIPT). What comes after
    `most` statements is not looked at.

    Raises:
        SqlSyntaxError: at the first text that does not parse.
    """
    known = None if variables is None else Variables(variables)
    parsed = []
    for piece in islice(statements_of(text), most):
        if piece.end is None and piece.error is None:
            raise _unfinished(piece)
        statement = _statement(piece, known, test_statements)
        text = piece.text if known is None else filled_in(piece, known)
        if known is not None:
            known = _with_definition(known, statement)
        written = None if text == piece.text else piece.text
        parsed.append(ParsedStatement(statement, text, _outer_span(piece), written))
    return tuple(parsed)


def statements_of(text: str) -> Iterator[StatementTokens]:
    """Split a text at its semicolons, so that each statement can be parsed when those before it have run."""
    return split_statements(_pattern(), text)


def place_of(piece: StatementTokens) -> Span:
    """Return where a statement begins."""
    return span_of(piece.tokens[0]) if piece.tokens or piece.error is None else piece.error.span or Span(1, 1, 1, 1)


def placed_text(text: str, start: Span) -> str:
    """Return the text of a statement below blank lines, so that its errors name its place in the whole text."""
    return "\n" * (start.line - 1) + " " * (start.column - 1) + text


def parse_statement(text: str, *, test_statements: bool = False) -> Statement:
    """Parse one statement, with or without its semicolon; `${name}` references are not replaced.

    Raises:
        SqlSyntaxError: the statement does not parse, or the text has none or several.
    """
    pieces = tuple(statements_of(text))
    if len(pieces) != 1:
        raise SqlSyntaxError(
            f"expected one statement, got {len(pieces)}", span=_outer_span(pieces[1]) if pieces else None
        )
    return _statement(pieces[0], None, test_statements)


def parse_expression(text: str) -> Expression:
    """Parse an expression.

    Raises:
        SqlSyntaxError: the text does not parse.
    """
    expression: Expression = _parse("expression", text)
    return expression


def parse_select_item(text: str) -> tuple[Expression, str]:
    """Parse `<expression> AS <alias>`, the select item of a plan (rules P4.6).

    Raises:
        SqlSyntaxError: the text does not parse.
    """
    item: SelectExpression = _parse("aliased_expression", text)
    return item.expression, item.alias or ""


def parse_window(text: str) -> Window:
    """Parse the text after WINDOW, as plans up to 7.1 hold it (rules P4.4).

    Raises:
        SqlSyntaxError: the text does not parse.
    """
    window: Window = _parse("window_expression", text)
    return window


def parse_columns(text: str) -> tuple[Column, ...]:
    """Parse a schema string (rules P4.5) to its columns in textual order; an empty string has none.

    Raises:
        SqlSyntaxError: the text does not parse.
    """
    elements: tuple[Element, ...] = _parse("schema", text)
    return tuple(to_column(element) for element in elements)


def parse_schema(text: str) -> Schema:
    """Parse a schema string to a schema, key columns first.

    Raises:
        SqlSyntaxError: the text does not parse.
    """
    return Schema(tuple(parse_columns(text)))


def parse_type(text: str) -> SqlType:
    """Parse a type; a name that is not a built-in type becomes a `NamedType`.

    Raises:
        SqlSyntaxError: the text does not parse.
    """
    sql_type: SqlType = _parse("type", text).value
    return sql_type


def to_column(element: Element) -> Column:
    """Return the column of a column element; KEY and PRIMARY KEY give the same role."""
    return Column(element.name, element.type, _ROLES[element.role], element.header_key)


@functools.cache
def grammar() -> Lark:
    """Build the parser once, on first use.

    lark's file cache is off, because it unpickles a file from the shared temporary directory.
    """
    return parser_of(Path(__file__).with_name("grammar.lark"), _STARTS, StatementRules())


@functools.cache
def _pattern() -> re.Pattern[str]:
    return pattern_of(grammar())


@functools.cache
def _tables(start: str) -> Tables:
    return tables_of(grammar(), start)


def _parse(start: str, text: str) -> Any:
    tokens = tuple(tokenize(_pattern(), text))
    return _run(start, StatementTokens(tokens, text, None))


@dataclass(frozen=True, slots=True)
class _Placed:
    """A statement without variables; its text and its place say all of it."""

    text: str
    line: int | None
    column: int | None
    start: str
    piece: StatementTokens = field(compare=False)


def _statement(piece: StatementTokens, variables: Variables | None, test_statements: bool) -> Statement:
    if piece.error is not None:
        raise piece.error
    start = "test_statement" if test_statements else "statement"
    if variables is not None and "${" in piece.text:
        return _parsed(start, StatementTokens(substitute(piece.tokens, variables), piece.text, piece.end))
    if len(piece.text) > _LONG or not piece.tokens:
        return _parsed(start, piece)
    return _parsed_before(_Placed(piece.text, piece.tokens[0].line, piece.tokens[0].column, start, piece))


@functools.lru_cache(maxsize=256)
def _parsed_before(placed: _Placed) -> Statement:
    """Parse a statement once: clients and cases give many again, and nodes do not change."""
    return _parsed(placed.start, placed.piece)


def _parsed(start: str, piece: StatementTokens) -> Statement:
    tokens = with_aliases(with_kafka_keywords(piece.tokens))
    statement: Statement = _run(start, StatementTokens(tokens, piece.text, piece.end))
    return statement


def _with_definition(known: Variables, statement: Statement) -> Variables:
    match statement:
        case DefineVariable(name, value):
            return known.define(name, value)
        case UndefineVariable(name):
            return known.undefine(name)
        case _:
            return known


def _run(start: str, piece: StatementTokens) -> Any:
    stacks = Stacks(_tables(start))
    tokens = (*piece.tokens, _end_token(piece))
    for index, token in enumerate(tokens):
        check_work()
        try:
            accepted = stacks.feed(token.type, token)
        except RecursionError:
            # Names of lambdas are bound as soon as a lambda ends.
            raise too_large(_outer_span(piece)) from None
        if not accepted:
            raise _failure(start, piece, index)
        # Now and then only, for a chain that the limit forbids costs as little to read as one that it allows.
        if index % MAX_TERMS == 0 and any(map(is_long_chain, stacks.values[-_TOP:])):
            raise too_large(_outer_span(piece))
    if len(tokens) > min(MAX_DEPTH, MAX_TERMS) and is_too_large(stacks.values[-1]):
        raise too_large(_outer_span(piece))
    return stacks.values[-1]


def _end_token(piece: StatementTokens) -> Token:
    if piece.end is not None:
        return piece.end.update(END, piece.end)
    if not piece.tokens:
        return Token(END, "", 0, 1, 1, 1, 1, 0)
    last = piece.tokens[-1]
    return Token(END, "", last.end_pos, last.end_line, last.end_column, last.end_line, last.end_column, last.end_pos)


def _failure(start: str, piece: StatementTokens, index: int) -> SqlSyntaxError:
    """Build the error for token number `index`, which the parser rejected.

    Feed the tokens before it again: the rejection itself may have reduced rules, which loses the accepted tokens.
    """
    tokens = (*piece.tokens, _end_token(piece))
    stacks = Stacks(_tables(start))
    for token in tokens[:index]:
        stacks.feed(token.type, token)
    accepts = stacks.accepts()
    offending = tokens[index]
    following = tokens[index + 1].type if index + 1 < len(tokens) else None
    return syntax_error(
        Failure(
            token_type=offending.type if offending.value != ";" else "SEMICOLON",
            text=offending.value,
            span=span_of(offending),
            accepts=accepts,
            is_first=index == 0 and start.endswith("statement"),
            skippable=following in accepts,
            insertable="RPAR" in accepts and offending.type in stacks.accepts_after("RPAR"),
            statement=piece.text + (";" if piece.end is not None and not piece.text.endswith(";") else ""),
        )
    )


def _unfinished(piece: StatementTokens) -> SqlSyntaxError:
    try:
        _run("test_statement", piece)
    except SqlSyntaxError as error:
        return error
    end = _end_token(piece)
    return SqlSyntaxError(
        f'line {end.line}:{end.column}: Syntax Error\nSyntax error at or near ";"\nStatement: {piece.text}',
        span=span_of(end),
        hint="a statement ends with a semicolon",
    )


def _outer_span(piece: StatementTokens) -> Span:
    first = span_of(piece.tokens[0])
    last = span_of(piece.end if piece.end is not None else piece.tokens[-1])
    return Span(first.line, first.column, last.end_line, last.end_column)
