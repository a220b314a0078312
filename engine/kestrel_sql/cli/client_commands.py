"""Runs the commands that ksqlDB's prompt keeps to itself: RUN SCRIPT and VERSION (rules R15)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from kestrel_sql.cli.render import show_error
from kestrel_sql.errors import EngineError, Span, SqlSyntaxError, StatementError, unreadable
from kestrel_sql.plan.codec.plan_file import engine_version
from kestrel_sql.sql.parse.parser import grammar
from kestrel_sql.sql.parse.tokens import StatementTokens, span_of, split_statements

_NO_LINE_FEED = re.compile(r"[^\n]")


@dataclass(frozen=True, slots=True)
class _Command:
    """A command; `script` is the path of RUN SCRIPT, None for VERSION."""

    span: Span
    script: str | None = None


@dataclass(frozen=True, slots=True)
class ClientCommands:
    """Executes texts; `run` takes the statements between commands and returns whether all went well."""

    run: Callable[[str], bool]
    out: Console
    errors: Console

    def execute(self, text: str, folder: Path, running: tuple[Path, ...] = ()) -> bool:
        """Execute a text up to its first error.

        Paths are relative to `folder`, `running` holds the scripts around it.
        """
        for part in _parts(text):
            if isinstance(part, str):
                done = self.run(part)
            elif part.script is None:
                self.out.print(f"Version: {engine_version()}", markup=False, highlight=False)
                done = True
            else:
                done = self._run_script(part, part.script, text, folder, running)
            if not done:
                return False
        return True

    def _run_script(self, command: _Command, path: str, text: str, folder: Path, running: tuple[Path, ...]) -> bool:
        file = (folder / path).resolve()
        try:
            script = _read(file, path, running)
        except EngineError as error:
            error.span = command.span
            show_error(self.errors, error, text)
            return False
        done = self.execute(script, file.parent, (*running, file))
        if not done:
            self.errors.print(f"  in the script {file}", style="red", markup=False, highlight=False, soft_wrap=True)
        return done


def _read(file: Path, path: str, running: tuple[Path, ...]) -> str:
    if file in running:
        raise StatementError(f"the script {path} runs itself")
    try:
        script = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StatementError(f"the script {path} cannot be read: {unreadable(error)}") from error
    if not script.strip():
        raise StatementError(f"the script {path} is empty")
    return script


def _parts(text: str) -> Iterator[str | _Command]:
    """Split a text at its commands; statements keep their positions in it."""
    try:
        pieces = list(split_statements(grammar(), text))
    except SqlSyntaxError:
        # Whoever runs the text says so.
        yield text
        return
    start = 0
    for piece in pieces:
        command = _command(piece)
        if command is not None and piece.end is not None:
            at, end = piece.tokens[0].start_pos or 0, piece.end.end_pos or 0
            if text[start:at].strip():
                yield _NO_LINE_FEED.sub(" ", text[:start]) + text[start:at]
            yield command
            start = end
    if start == 0 or text[start:].strip():
        yield _NO_LINE_FEED.sub(" ", text[:start]) + text[start:]


def _command(piece: StatementTokens) -> _Command | None:
    words = [token.upper() if token.type == "IDENTIFIER" else token.type for token in piece.tokens]
    if words == ["VERSION"]:
        return _Command(span_of(piece.tokens[0]))
    if words == ["RUN", "SCRIPT", "STRING_VALUE"]:
        return _Command(span_of(piece.tokens[2]), piece.tokens[2][1:-1].replace("''", "'"))
    return None
