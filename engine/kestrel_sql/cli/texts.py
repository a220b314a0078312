"""Texts of statements for an engine in memory: run one, and cut piped lines into complete ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kestrel_sql.cli.record_files import Inputs
from kestrel_sql.cli.render import Display, show_error
from kestrel_sql.errors import EngineError
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.engine import MemoryEngine

WELCOME = "Kestrel: ksqlDB's language on Apache Spark, topics in memory. A statement ends with a semicolon; help, exit."

COMMENT = re.compile(r"--[^\n]*")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_LINE = re.compile(r"exit|quit|help|version|set\s+cli\b.*|run\s+script\s+''", re.IGNORECASE)
"""A command of the shell, which needs no semicolon."""


def run_text(engine: MemoryEngine, text: str, display: Display, inputs: Inputs, bad: BadRecords) -> bool:
    """Execute the statements of a text; on the first error print it and give False."""
    try:
        for parsed in engine.session.parse(text):
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
    bad.note_errors(engine.queries.errors())


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

    It ends in a semicolon that stands in no text, name or comment, or is a command of the shell.
    """
    bare = COMMENT.sub("", _TEXT.sub("''", text)).strip()
    left_open = any(bare.replace("''", "").count(quote) for quote in "'\"`")
    return not bare or bool(_LINE.fullmatch(bare)) or (bare.endswith(";") and not left_open)
