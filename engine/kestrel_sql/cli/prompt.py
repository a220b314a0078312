"""The prompt: statements in, tables out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from rich.console import Console

from kestrel_sql.cli.client_commands import Leave
from kestrel_sql.cli.completion import SqlCompleter
from kestrel_sql.cli.texts import COMMENT, WELCOME, is_complete
from kestrel_sql.queries.engine import MemoryEngine


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
        try:
            if COMMENT.sub("", text).strip(" \n;"):
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
