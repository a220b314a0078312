"""What may stand where the cursor of the prompt is: sources after FROM, columns after SELECT, properties in WITH."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.formats.table import FORMATS
from kestrel_sql.planner.properties.values import SINK_KEYS, SOURCE_KEYS
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.sql.keywords import KEYWORDS, is_plain

Candidate = tuple[str, str]
"""A text that completes a word, and what it is."""

_BARE = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_TOKEN = re.compile(r"`[^`]*`|\w+|[^\s\w]")
_SOURCES = frozenset({"FROM", "JOIN", "INTO", "DESCRIBE", "EXTENDED"})
_COLUMNS = frozenset({"SELECT", "WHERE", "ON", "BY", "HAVING", "PARTITION", "GROUP"})
_ENDS = frozenset({"WITH", "WINDOW", "EMIT", "LIMIT", "VALUES", "AS", "CREATE", "PRINT", "SHOW", "SET"})


class Context(msgspec.Struct, frozen=True):
    """The clause that the cursor is in, and the property whose value it is at, if it is in a WITH."""

    clause: str = ""
    is_name: bool = False
    key: str = ""


def context_of(before: str) -> Context:
    """Return the context of a word, given the text before it.

    `is_name` says that the clause needs the name of a source or property here, and nothing else.
    """
    tokens = [token.upper() for token in _TOKEN.findall(_BARE.sub("''", before).rpartition(";")[2])]
    opened = _open_with(tokens)
    if opened is not None:
        last = opened[-1] if opened else ","
        key = opened[-2] if last == "=" and len(opened) > 1 else ""
        return Context("WITH", not opened or last == ",", key)
    if tokens and (tokens[-1] in _SOURCES or tokens[-2:-1] == ["DROP"]):
        return Context("FROM", is_name=True)
    if tokens[-1:] == ["PRINT"]:
        return Context("PRINT", is_name=True)
    clause = next((token for token in reversed(tokens) if token in _SOURCES | _COLUMNS | _ENDS), "")
    return Context("SELECT" if clause in _COLUMNS or (clause == "AS" and "SELECT" in tokens) else "")


def _open_with(tokens: list[str]) -> list[str] | None:
    """The tokens behind `WITH (`, or None if it is not open."""
    for index in range(len(tokens) - 2, -1, -1):
        if tokens[index] == "WITH" and tokens[index + 1] == "(":
            inside = tokens[index + 2 :]
            return None if ")" in inside else inside
    return None


class SqlCompleter(Completer):
    """Completes what fits where the cursor is: names of sources, columns, topics, properties, functions, keywords."""

    def __init__(self, engine: MemoryEngine) -> None:
        """Complete from what the engine knows at each time."""
        self._engine = engine

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Offer the words that begin with what stands before the cursor; without a word, names that must follow."""
        word = document.get_word_before_cursor(WORD=False)
        start = word.upper() if re.fullmatch(r"\w+", word) else ""
        before = document.text_before_cursor
        before = before[: len(before) - len(start)]
        is_quoted = before.endswith("'") and before.count("'") % 2 == 1
        context = context_of(before[:-1] if is_quoted else before)
        if not start and not context.is_name:
            return
        for candidate, meaning in self._fitting(context, document.text):
            text = candidate.removeprefix("'") if is_quoted else candidate
            if text.upper().startswith(start):
                yield Completion(text, start_position=-len(start), display_meta=meaning)

    def _fitting(self, context: Context, text: str) -> Iterator[Candidate]:
        session = self._engine.session
        sources = list(session.catalog.sources.values())
        names = [(_written(source.name), source.kind.value.lower()) for source in sources]
        topics = [(name, "topic") for name in self._engine.broker.topics if not name.startswith("__")]
        functions = [(name, "function") for name in sorted(session.functions)]
        match context.clause:
            case "WITH":
                yield from _properties(context, text)
            case "FROM":
                yield from names
            case "PRINT":
                yield from topics
            case "SELECT":
                yield from _columns(_read(sources, text))
                yield from functions
                yield from ((word, "") for word in sorted(KEYWORDS))
            case _:
                yield from names
                yield from _columns(sources)
                yield from ((name, "query") for name in session.queries)
                yield from (each for each in topics if each[0] not in session.catalog.sources)
                yield from functions
                yield from ((word, "") for word in sorted(KEYWORDS))


def _properties(context: Context, text: str) -> Iterator[Candidate]:
    if context.is_name:
        is_sink = re.search(r"\bAS\s+SELECT\b", text, re.IGNORECASE) is not None
        yield from ((name, "property") for name in sorted(SINK_KEYS if is_sink else SOURCE_KEYS))
    elif context.key.endswith("FORMAT"):
        yield from ((f"'{name}'", "format") for name in FORMATS)


def _read(sources: list[Source], text: str) -> list[Source]:
    """The sources that the text names behind FROM and JOIN; all of them if it names none."""
    named = {
        name.strip("`") if name.startswith("`") else name.upper()
        for name in re.findall(r"\b(?:FROM|JOIN)\s+(`[^`]*`|\w+)", text, re.IGNORECASE)
    }
    return [source for source in sources if source.name in named] or sources


def _columns(sources: Iterable[Source]) -> Iterator[Candidate]:
    columns = dict.fromkeys((column.name, str(column.type)) for source in sources for column in source.schema.columns)
    yield from ((_written(name), type_) for name, type_ in columns)


def _written(name: str) -> str:
    return name if is_plain(name) else f"`{name}`"
