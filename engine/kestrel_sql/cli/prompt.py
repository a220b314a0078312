"""The prompt: statements in, tables out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from rich.console import Console

from kestrel_sql.cli.client_commands import Leave
from kestrel_sql.cli.completion import SqlCompleter
from kestrel_sql.cli.record_files import Inputs
from kestrel_sql.cli.render import Display, show_error
from kestrel_sql.errors import EngineError
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.engine import MemoryEngine

WELCOME = "Kestrel: ksqlDB's language on Apache Spark, topics in memory. A statement ends with a semicolon; help, exit."
HELP = """Statements of ksqlDB: CREATE STREAM|TABLE … [AS SELECT …], INSERT INTO …, SELECT … [EMIT CHANGES] [LIMIT n],
SHOW STREAMS|TABLES|TOPICS|QUERIES|FUNCTIONS|…, DESCRIBE name [EXTENDED], EXPLAIN …, PRINT topic, DROP …,
SET 'property' = 'value'.
RUN SCRIPT 'file' executes the statements of a file, VERSION says which Kestrel this is,
SET CLI COLUMN-WIDTH n and SET CLI WRAP ON|OFF change how tables look.
A push query (EMIT CHANGES) shows what its sources hold now and ends.
Tab completes what fits: sources after FROM, columns after SELECT, properties in WITH.
The arrow keys go back to earlier statements, Ctrl-R searches them.
Ctrl-C gives up a statement or stops a query, exit or Ctrl-D leaves."""

_COMMENT = re.compile(r"--[^\n]*")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


def run_text(engine: MemoryEngine, text: str, display: Display, inputs: Inputs, bad: BadRecords) -> bool:
    """Execute the statements of a text; on the first error print it and give False."""
    try:
        for parsed in engine.parse(text):
            display.answer(engine.execute(parsed))
            inputs.feed(engine)
            _note(bad, engine)
    except EngineError as error:
        _note(bad, engine)
        show_error(display.notes, error, text)
        return False
    return True


def _note(bad: BadRecords, engine: MemoryEngine) -> None:
    bad.note(engine.take_log())
    bad.note_errors(engine.errors())


def run_shell(
    engine: MemoryEngine,
    out: Console,
    errors: Console,
    history: Path | None,
    *,
    run: Callable[[str], bool],
    ask: Callable[[], str] | None = None,
    welcome: str = WELCOME,
) -> None:
    """Read statements from the terminal until the end of input.

    `run` executes a text, `ask` replaces the terminal in tests.
    """
    asked = ask or _prompt(engine, history)
    out.print(welcome, markup=False, highlight=False)
    while True:
        try:
            text = asked()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        word = _COMMENT.sub("", text).strip().rstrip(";").strip().lower()
        try:
            if word == "help":
                out.print(HELP, markup=False, highlight=False)
            elif word:
                _guarded(run, text, errors)
        except Leave:
            return


def _guarded(execute: Callable[[str], bool], text: str, errors: Console) -> None:
    try:
        execute(text)
    except KeyboardInterrupt:
        errors.print("interrupted", style="yellow")


def _prompt(engine: MemoryEngine, history: Path | None) -> Callable[[], str]:
    session = prompt_session(engine, history)
    return lambda: session.prompt("kestrel> ")


def prompt_session(engine: MemoryEngine, history: Path | None) -> PromptSession[str]:
    """The prompt: a statement may have several lines, and is one entry of the history."""
    return PromptSession(
        history=InMemoryHistory() if history is None else FileHistory(str(history)),
        completer=SqlCompleter(engine),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation="      -> ",
        key_bindings=_keys(),
    )


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def piped_texts(lines: Iterable[str]) -> Iterator[str]:
    """Give the texts of piped lines as soon as they are complete, each below as many blank lines as came before it."""
    before, waiting = 0, ""
    for line in lines:
        waiting += line
        may_end = ";" in line or not waiting[: -len(line)].strip()
        if may_end and is_complete(waiting):
            yield "\n" * before + waiting
            before, waiting = before + waiting.count("\n"), ""
    if waiting.strip():
        yield "\n" * before + waiting


def is_complete(text: str) -> bool:
    """Whether Enter hands a text over.

    It ends in a semicolon that stands in no text, name or comment, or is a word of the shell.
    """
    bare = _COMMENT.sub("", _TEXT.sub("''", text)).strip()
    left_open = any(bare.replace("''", "").count(quote) for quote in "'\"`")
    word = bare.lower()
    return not word or word in ("exit", "quit", "help") or (bare.endswith(";") and not left_open)
