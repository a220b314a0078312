"""Splits text into tokens, and tokens into statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters

from kestrel_sql.errors import Span, SqlSyntaxError
from kestrel_sql.sql.keywords import KAFKA_KEYWORDS, KEYWORDS
from kestrel_sql.sql.parse.variables import Variables


@dataclass(frozen=True, slots=True)
class StatementTokens:
    """The tokens of one statement; `end` is its semicolon, None if the text ends without one."""

    tokens: tuple[Token, ...]
    text: str
    end: Token | None


def span_of(token: Token) -> Span:
    """Return the span of a token."""
    line, column = token.line or 1, token.column or 1
    return Span(line, column, token.end_line or line, token.end_column or column)


def tokenize(lexer: Lark, text: str) -> Iterator[Token]:
    """Yield the tokens of `text`; a keyword, in any letter case, gets its own token type.

    Raises:
        SqlSyntaxError: no token starts with a character, or a quote is not closed.
    """
    try:
        for token in lexer.lex(text):
            if token.type == "IDENTIFIER":
                word = token.upper()
                token.type = word if word in KEYWORDS else "IDENTIFIER"
            yield token
    except UnexpectedCharacters as error:
        raise _unreadable(text, error) from None


def split_statements(lexer: Lark, text: str) -> Iterator[StatementTokens]:
    """Split a script at its semicolons; skip empty statements."""
    current: list[Token] = []
    for token in tokenize(lexer, text):
        if token.type != "SEMICOLON":
            current.append(token)
            continue
        if current:
            yield StatementTokens(tuple(current), text[current[0].start_pos : token.end_pos], token)
        current = []
    if current:
        yield StatementTokens(tuple(current), text[current[0].start_pos : current[-1].end_pos], None)


def with_kafka_keywords(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Turn the keywords of CREATE SOURCE … FROM into keyword tokens if the tokens are that statement or its EXPLAIN."""
    first = 1 if tokens and tokens[0].type == "EXPLAIN" else 0
    kinds = [token.type for token in tokens[first : first + 3]]
    if kinds[:2] != ["CREATE", "SOURCE"] or kinds[2:] in (["STREAM"], ["TABLE"], ["CONNECTOR"], []):
        return tokens
    # The token after SOURCE or EXISTS is the name of the source.
    names = [False, *(token.type in ("SOURCE", "EXISTS") for token in tokens)]
    words = zip(tokens, names, strict=False)
    return tuple(
        token.update(token.upper()) if not is_name and _is_kafka_keyword(token) else token for token, is_name in words
    )


def _is_kafka_keyword(token: Token) -> bool:
    return token.type == "IDENTIFIER" and token.upper() in KAFKA_KEYWORDS


def substitute(tokens: tuple[Token, ...], variables: Variables) -> tuple[Token, ...]:
    """Replace variables in strings and as whole tokens; a new token has the span of its reference.

    References in the value of a DEFINE stay, so no value is replaced twice.

    Raises:
        SqlSyntaxError: a reference outside of strings is undefined, or its value is not one identifier or literal.
    """
    if tokens and tokens[0].type == "DEFINE":
        return tokens
    replaced: list[Token] = []
    for token in tokens:
        if token.type == "STRING_VALUE" and "${" in token:
            replaced.append(token.update(value=variables.in_string_literal(token.value)))
        elif token.type == "VARIABLE":
            replaced += [token.update(kind, value) for kind, value in variables.as_tokens(token.value, span_of(token))]
        else:
            replaced.append(token)
    return tuple(replaced)


def _unreadable(text: str, error: UnexpectedCharacters) -> SqlSyntaxError:
    character = error.char
    span = Span(error.line, error.column, error.line, error.column + 1)
    hint = f"the {character} opened here is never closed" if character in "'\"`" else None
    position = f"line {error.line}:{error.column}"
    return SqlSyntaxError(
        f"{position}: Syntax Error\nSyntax error at or near '{character}' at {position}", span=span, hint=hint
    )
