"""The prompt: statements in, tables out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from rich.console import Console

from engine.cli_render import show, show_error
from engine.cli_topics import Inputs
from engine.errors import EngineError
from engine.queries.engine import MemoryEngine
from engine.sql.words import KEYWORDS, is_plain

WELCOME = "Kestrel: ksqlDB's language on Apache Spark, topics in memory. A statement ends with a semicolon; help, exit."
HELP = """Statements of ksqlDB: CREATE STREAM|TABLE … [AS SELECT …], INSERT INTO …, SELECT … [EMIT CHANGES] [LIMIT n],
SHOW STREAMS|TABLES|TOPICS|QUERIES|FUNCTIONS|…, DESCRIBE name [EXTENDED], EXPLAIN …, PRINT topic, DROP …, SET 'property' = 'value'.
A push query (EMIT CHANGES) shows what its sources hold now and ends.
exit or Ctrl-D leaves, Ctrl-C gives up the line."""


class SqlCompleter(Completer):
    """Completes keywords, functions, and the names of sources and columns."""

    def __init__(self, engine: MemoryEngine) -> None:
        """Complete from what the engine knows at each time."""
        self._engine = engine

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Offer the words that begin with what stands before the cursor, names before keywords."""
        word = document.get_word_before_cursor(WORD=False)
        if not word:
            return
        start = word.upper()
        for candidate, meaning in self._words():
            if candidate.upper().startswith(start):
                yield Completion(candidate, start_position=-len(word), display_meta=meaning)

    def _words(self) -> Iterator[tuple[str, str]]:
        session = self._engine.session
        sources = session.catalog.sources.values()
        yield from ((_written(source.name), source.kind.value.lower()) for source in sources)
        columns = dict.fromkeys((column.name, str(column.type)) for source in sources for column in source.schema.columns)
        yield from ((_written(name), type_) for name, type_ in columns)
        yield from ((name, "function") for name in sorted(session.functions))
        yield from ((word, "") for word in sorted(KEYWORDS))


def _written(name: str) -> str:
    return name if is_plain(name) else f"`{name}`"


def run_text(engine: MemoryEngine, text: str, out: Console, errors: Console, inputs: Inputs | None = None) -> bool:
    """Execute the statements of a text; on the first error print it and give False."""
    try:
        for parsed in engine.parse(text):
            show(out, engine.execute(parsed))
            if inputs is not None:
                inputs.feed(engine)
    except EngineError as error:
        show_error(errors, error, text)
        return False
    return True


def run_shell(
    engine: MemoryEngine, out: Console, errors: Console, history: Path | None, inputs: Inputs, ask: Callable[[], str] | None = None
) -> None:
    """Read statements from the terminal until the end of input; `ask` replaces the terminal in tests."""
    asked = ask or _prompt(engine, history)
    out.print(WELCOME, markup=False, highlight=False)
    while True:
        try:
            text = asked()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        word = text.strip().rstrip(";").lower()
        if word in ("exit", "quit"):
            return
        if word == "help":
            out.print(HELP, markup=False, highlight=False)
        elif word:
            _guarded(engine, text, out, errors, inputs)


def _guarded(engine: MemoryEngine, text: str, out: Console, errors: Console, inputs: Inputs) -> None:
    try:
        run_text(engine, text, out, errors, inputs)
    except KeyboardInterrupt:
        errors.print("interrupted", style="yellow")


def _prompt(engine: MemoryEngine, history: Path | None) -> Callable[[], str]:
    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory() if history is None else FileHistory(str(history)),
        completer=SqlCompleter(engine),
        complete_while_typing=False,
    )

    def ask() -> str:
        text = session.prompt("kestrel> ")
        while not _is_complete(text):
            text += "\n" + session.prompt("      -> ")
        return text

    return ask


def _is_complete(text: str) -> bool:
    word = text.strip().lower()
    return not word or word.endswith(";") or word in ("exit", "quit", "help")
