"""Statements and messages without what nobody else may read: secrets, and the values of INSERT VALUES (R4.2)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import msgspec

from kestrel_sql.errors import EngineError, Span, underline

_SECRET = re.compile(r"('[^']*(?:password|secret|token|api\.key)[^']*'\s*=\s*)'(?:[^']|'')*'", re.IGNORECASE)
_CONNECTOR = re.compile(r"\bCREATE\s+(?:SOURCE|SINK)\s+CONNECTOR\b(?:'(?:[^']|'')*+'|[^;'])*+", re.IGNORECASE)
_SETTING = re.compile(r"(('(?:[^']|'')*+'|[\w`]++)\s*=\s*)(?:'(?:[^']|'')*+'|[^\s,)]++)")
_TOKEN = re.compile(
    r"(?P<blank>\s++|--[^\n]*+|/\*.*?\*/)"
    r"|(?P<string>'(?:[^']|'')*+(?:'|\Z))"
    r"|(?P<quoted>`(?:[^`]|``)*+(?:`|\Z)|\"(?:[^\"]|\"\")*+(?:\"|\Z))"
    r"|(?P<number>\.?\d(?:[eE][+-]\d|[\w.])*+)"
    r"|(?P<word>[^\W\d][\w@]*+|\$\{[^}]*+\})"
    r"|(?P<mark>.)",
    re.DOTALL,
)
_NESTING = {"(": 1, "[": 1, ")": -1, "]": -1}
_MASK = "'[value]'"
_FIXED = r"DECIMAL\(\d+, ?\d+\)|\b[Ll]ine:? ?\d+(?:, Col: |:)\d+"
"""Numbers of a message that are no values: those of types and positions."""


def without_secrets(text: str) -> str:
    """Return statements without the values of properties that hold secrets, and those of INSERT VALUES."""
    return _SECRET.sub(r"\1'*****'", without_values(text))


def without_values(text: str) -> str:
    """Return statements without the values of INSERT VALUES, and those of a connector's properties but its class."""
    return _CONNECTOR.sub(lambda found: _SETTING.sub(_masked, found[0]), Masked.of(text).text)


def _masked(setting: re.Match[str]) -> str:
    return setting[0] if setting[2].strip("'").lower() == "connector.class" else f"{setting[1]}'[string]'"


def told(error: EngineError, text: str | None = None) -> str:
    """Return what a client is told of an error in `text`: the message, the place under the masked text, and the hint.

    Values of the user are not repeated, for answers end up in logs of others.
    """
    message = error.message if error.public is None else error.public
    hint = [f"  hint: {error.hint}"] if error.hint else []
    if text is None:
        return "\n".join([message, *hint])
    masked = Masked.of(text)
    place = underline(masked.text, masked.span(error.span)) if error.span else []
    return "\n".join([masked.message(message), *place, *map(masked.message, hint)])


class Masked(msgspec.Struct, frozen=True):
    """A script whose values of INSERT VALUES, the ranges of offsets `values`, are masked."""

    source: str
    values: tuple[tuple[int, int], ...]

    @staticmethod
    def of(source: str) -> Masked:
        """Find the values, also where the statement does not parse."""
        statements = _statements(source) if "INSERT" in source.upper() or "VALUES" in source.upper() else ()
        return Masked(source, tuple(value for statement in statements for value in _values(statement)))

    @property
    def text(self) -> str:
        """The script with '[value]' for each value."""
        ends = [0, *(end for _, end in self.values)]
        starts = [*(start for start, _ in self.values), len(self.source)]
        return _MASK.join(self.source[end:start] for end, start in zip(ends, starts, strict=True))

    def span(self, span: Span) -> Span:
        """Return where a span of the source is in the masked text."""
        start = self._place(span.line, span.column, last=False)
        return Span(*start, *self._place(span.end_line, span.end_column, last=True))

    def _place(self, line: int, column: int, *, last: bool) -> tuple[int, int]:
        begins = _line_starts(self.source)
        at, moved = begins[min(line, len(begins)) - 1] + column - 1, 0
        for start, end in self.values:
            if at < start or (last and at == start):
                break
            if at < end or (last and at == end):
                at = end if last else start
                moved += len(_MASK) - (end - start) if last else 0
                break
            moved += len(_MASK) - (end - start)
        begins = _line_starts(self.text)
        found = bisect_right(begins, at + moved)
        return found, at + moved - begins[found - 1] + 1

    def message(self, message: str) -> str:
        """Return a message about the script without its values."""
        said, mark, statement = message.partition("\nStatement: ")
        literals = sorted(set(self._literals()), key=len, reverse=True)
        if literals:
            words = "|".join(map(re.escape, literals))
            said = re.sub(
                rf"({_FIXED})|'(?:{words})'|(?<![\w.])(?:{words})(?![\w.])", lambda found: found[1] or "[value]", said
            )
        return said + mark + Masked.of(statement).text

    def _literals(self) -> Iterator[str]:
        """The texts by which a message may name the values."""
        for start, end in self.values:
            tokens = list(_TOKEN.finditer(self.source, start, end))
            for token in tokens:
                text = token[0]
                if token.lastgroup in ("string", "quoted"):
                    yield from filter(str.strip, (text[1:-1].replace(text[0] * 2, text[0]), text[1:-1], text[1:]))
                elif token.lastgroup == "number" or (token.lastgroup == "word" and len(tokens) == 1):
                    yield from {text, text.upper()} - {"NULL", "null"}


def _line_starts(text: str) -> list[int]:
    return list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))[:-1]


def _statements(source: str) -> Iterator[list[re.Match[str]]]:
    """Split a script into the tokens of its statements."""
    statement: list[re.Match[str]] = []
    for token in _TOKEN.finditer(source):
        if token[0] == ";":
            yield statement
            statement = []
        elif token.lastgroup != "blank":
            statement.append(token)
    yield statement


def _values(statement: Sequence[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """The ranges of the values of an INSERT VALUES; those of all literals behind its list and where it has none."""
    words = [token[0].upper() for token in statement]
    first = next((at + 2 for at, pair in enumerate(pairwise(words)) if pair == ("VALUES", "(")), 0)
    if not first and (words[:1] != ["INSERT"] or "SELECT" in words):
        return
    depth, begin, end = (1 if first else 0), -1, -1
    for token in statement[first:]:
        mark = token[0] if token.lastgroup == "mark" else ""
        if depth < 1:
            if token.lastgroup in ("string", "number") or token[0][:1] == '"':
                yield token.span()
        elif depth == 1 and mark and mark in ",)":
            if begin >= 0:
                yield begin, end
            depth, begin = depth - (mark == ")"), -1
        else:
            depth += _NESTING.get(mark, 0)
            begin, end = (token.start() if begin < 0 else begin), token.end()
    if begin >= 0:
        yield begin, end
