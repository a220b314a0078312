"""Splits text into tokens, and tokens into statements."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import msgspec
from lark import Lark
from lark.lexer import BasicLexer

from kestrel_sql.errors import Span, SqlSyntaxError
from kestrel_sql.sql.keywords import KAFKA_KEYWORDS, KEYWORDS
from kestrel_sql.sql.parse.nesting import MAX_FILLED, MAX_LETTERS, MAX_TOKENS, too_large
from kestrel_sql.sql.parse.variables import Variables


class Token(str):
    """A piece of a text that the grammar knows: what was written or stands for it, its type and its place."""

    __slots__ = ("column", "end_column", "end_line", "end_pos", "line", "start_pos", "type")

    type: str
    start_pos: int
    line: int
    column: int
    end_line: int
    end_column: int
    end_pos: int

    def __new__(
        cls, kind: str, text: str, start_pos: int, line: int, column: int, end_line: int, end_column: int, end_pos: int
    ) -> Token:
        """Make a token; lines and columns count from 1, and the end is behind it."""
        token = str.__new__(cls, text)
        token.type, token.start_pos, token.end_pos = kind, start_pos, end_pos
        token.line, token.column, token.end_line, token.end_column = line, column, end_line, end_column
        return token

    def update(self, kind: str, text: str) -> Token:
        """Return another token in the same place."""
        place = (self.start_pos, self.line, self.column, self.end_line, self.end_column, self.end_pos)
        return Token(kind, text, *place)

    @property
    def value(self) -> str:
        """The text alone."""
        return str(self)


class StatementTokens(msgspec.Struct, frozen=True):
    """The tokens of one statement; `end` is its semicolon, None if the text ends without one.

    `error` says what is wrong with a statement that has no tokens from some character on.
    """

    tokens: tuple[Token, ...]
    text: str
    end: Token | None
    error: SqlSyntaxError | None = None


_REST = re.compile(r"(?:[^;'`/-]++|'[^']*+'|`[^`]*+`|--[^\n]*+|/\*(?:.*?\*/|.*+)|[^;])*+;?", re.DOTALL)
"""The rest of a statement up to its semicolon, wherever in it the text becomes readable again."""

_QUOTES = frozenset("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2032\u2033\u00ab\u00bb\u2039\u203a\u00b4")
_DASHES = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2212")
_OPERATORS = {"\u2264": "<=", "\u2265": ">=", "\u2260": "<>", "\u00d7": "*", "\u00f7": "/", "\u22c5": "*"}


def span_of(token: Token) -> Span:
    """Return the span of a token."""
    return Span(token.line, token.column, token.end_line, token.end_column)


def pattern_of(grammar: Lark) -> re.Pattern[str]:
    """The pattern of blanks and comments, and then a token, which is the last group that matches, or nothing."""
    conf = grammar.lexer_conf
    terminals = [(each.name, each.pattern.to_regexp()) for each in BasicLexer(conf).terminals]
    ignored = "|".join(pattern for name, pattern in terminals if name in conf.ignore)
    tokens = "|".join(f"(?P<{name}>{pattern})" for name, pattern in terminals if name not in conf.ignore)
    return re.compile(f"(?P<{_IGNORED}>(?:{ignored})*+)(?:{tokens})?+")


_IGNORED = "ignored"


def tokenize(pattern: re.Pattern[str], text: str) -> Iterator[Token]:
    """Yield the tokens of `text`; a keyword, in any letter case, gets its own token type.

    Raises:
        SqlSyntaxError: no token starts with a character, or a quote is not closed.
    """
    reader = _Reader(pattern, text)
    yield from reader.tokens()
    if reader.error is not None:
        raise reader.error


class _Reader(msgspec.Struct):
    """Reads tokens up to an `error`; `at` is where it goes on, `line` the line there, which begins at `line_start`."""

    pattern: re.Pattern[str]
    text: str
    at: int = 0
    line: int = 1
    line_start: int = 0
    error: SqlSyntaxError | None = None

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens from `at` on, up to a character that starts none."""
        text, match = self.text, self.pattern.match
        while (found := match(text, self.at)) is not None:
            kind, start, end = found.lastgroup or _IGNORED, found.end(1), found.end()
            self.move(start)
            line, column = self.line, start - self.line_start + 1
            if kind == _IGNORED:
                if start < len(text):
                    self.error = _unreadable(text[start], line, column)
                return
            word = text[start:end]
            if kind == "IDENTIFIER" and (upper := word.upper()) in KEYWORDS:
                kind = upper
            self.move(end)
            yield Token(kind, word, start, line, column, self.line, end - self.line_start + 1, end)
            if kind == "SLASH" and text.startswith("*", end):
                # A comment without an end: each further one would look for its end in the whole text.
                self.move(end + 1)
                self.error = _unreadable(word, line, column)
                return

    def move(self, to: int) -> None:
        """Go on at a character further behind."""
        if newlines := self.text.count("\n", self.at, to):
            self.line += newlines
            self.line_start = self.text.rindex("\n", self.at, to) + 1
        self.at = to


def split_statements(pattern: re.Pattern[str], text: str) -> Iterator[StatementTokens]:
    """Split a script at its semicolons.

    A character that starts no token costs its statement, which has an `error`; the next one is read as usual.

    Raises:
        SqlSyntaxError: a statement has too many or too large tokens.
    """
    reader = _Reader(pattern, text)
    current: list[Token] = []
    while True:
        for token in reader.tokens():
            if token.type != "SEMICOLON":
                current.append(token)
                if len(current) > MAX_TOKENS:
                    raise too_large(span_of(token))
                if len(token) > MAX_LETTERS:
                    raise SqlSyntaxError(f"A word, number or text may have {MAX_LETTERS} letters", span=span_of(token))
                continue
            # A semicolon without a statement is one that does not parse.
            current = current or [token]
            yield StatementTokens(tuple(current), text[current[0].start_pos : token.end_pos], token)
            current = []
        if reader.error is None:
            break
        rest = _REST.match(text, reader.at + 1)
        end = len(text) if rest is None else rest.end()
        start = current[0].start_pos if current else reader.at
        yield StatementTokens(tuple(current), text[start:end], None, reader.error)
        current, reader.error = [], None
        reader.move(end)
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
        token.update(token.upper(), token) if not is_name and _is_kafka_keyword(token) else token
        for token, is_name in words
    )


def with_aliases(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Turn EMIT and PARTITION behind the name of a source into names, unless they start a clause."""
    kinds = [token.type for token in tokens]
    return tuple(
        token.update("IDENTIFIER", token)
        if token.type in _CLAUSES
        and kinds[max(at - 2, 0)] in ("FROM", "JOIN")
        and not set(kinds[at + 1 : at + 2]) & _CLAUSES[token.type]
        else token
        for at, token in enumerate(tokens)
    )


_CLAUSES = {"EMIT": {"CHANGES", "FINAL"}, "PARTITION": {"BY"}}
"""The words that start a clause, and those that follow them there."""


def _is_kafka_keyword(token: Token) -> bool:
    return token.type == "IDENTIFIER" and token.upper() in KAFKA_KEYWORDS


def substitute(tokens: tuple[Token, ...], variables: Variables) -> tuple[Token, ...]:
    """Replace variables in strings and as whole tokens; a new token has the span of its reference.

    Raises:
        SqlSyntaxError: a reference outside of strings is undefined, its value is not one identifier or literal, or all
            of them are too large.
    """
    replaced: list[Token] = []
    letters = 0
    for token in tokens:
        letters += variables.letters(token) if "${" in token else 0
        if letters > MAX_FILLED:
            raise SqlSyntaxError(
                f"The variables of a statement may stand for {MAX_FILLED} letters", span=span_of(token)
            )
        if token.type == "STRING_VALUE" and "${" in token:
            replaced.append(token.update(token.type, variables.in_string_literal(token)))
        elif token.type == "VARIABLE":
            replaced += [token.update(kind, value) for kind, value in variables.as_tokens(token, span_of(token))]
        else:
            replaced.append(token)
    return tuple(replaced)


def filled_in(piece: StatementTokens, variables: Variables) -> str:
    """Return the text of a statement with its variables replaced as in `substitute`.

    Raises:
        SqlSyntaxError: as `substitute`.
    """
    if "${" not in piece.text:
        return piece.text
    parts, at = [], 0
    begin = piece.tokens[0].start_pos
    for token in piece.tokens:
        if token.type not in ("STRING_VALUE", "VARIABLE") or "${" not in token:
            continue
        start, end = token.start_pos - begin, token.end_pos - begin
        value = "".join(substitute((token,), variables))
        # Two minus signs would start a comment.
        parts += [piece.text[at:start], f" {value}" if value.startswith("-") else value]
        at = end
    return "".join([*parts, piece.text[at:]])


def _unreadable(character: str, line: int, column: int) -> SqlSyntaxError:
    span = Span(line, column, line, column + 1)
    position = f"line {line}:{column}"
    return SqlSyntaxError(
        f"{position}: Syntax Error\nSyntax error at or near '{character}' at {position}",
        span=span,
        hint=_instead(character, f"{line}:{column}"),
    )


def _instead(character: str, position: str) -> str | None:
    """Say what to write for a character that editors and web pages put in the place of another."""
    if character in "'\"`":
        return f"the {character} opened here is never closed"
    if character == "/":
        return "the comment opened here is never closed"
    if character == "\\":
        return "remove the backslash: a statement continues over lines until its semicolon"
    return None if character.isascii() else f"U+{ord(character):04X} at {position}: {_plain(character)}"


def _plain(character: str) -> str:
    kind, same = unicodedata.category(character), unicodedata.normalize("NFKC", character)
    if character in _QUOTES:
        return "use '"
    if character in _DASHES:
        return "use -"
    if character in _OPERATORS:
        return f"use {_OPERATORS[character]}"
    if kind == "Zs":
        return "use a plain space"
    if kind == "Cf":
        return "remove it, it is invisible"
    if same.isascii() and (len(same) == 1 or same.isalnum()):
        return f"use {same}"
    name = unicodedata.name(character, "a character without a name").lower()
    return f"{name}; a name with such a letter stands in backticks" if kind[0] == "L" else f"{name} means nothing here"
