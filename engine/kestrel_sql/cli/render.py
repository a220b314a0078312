"""Answers and errors as a terminal shows them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.readable import readable
from kestrel_sql.errors import EngineError
from kestrel_sql.queries.bad_records import BadRecords


class Form(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    TSV = "tsv"
    CSV = "csv"


class Display(msgspec.Struct):
    """Prints answers: rows to `out`; what is said about them to `notes`.

    `width` is that of each column of a table, 0 for as wide as its values; a value that does not fit continues below,
    or is cut where `wraps` is off. With `rows_only` sentences go to `notes`, too.
    """

    out: Console
    notes: Console
    form: Form = Form.TABLE
    width: int = 0
    wraps: bool = True
    rows_only: bool = False

    @staticmethod
    def of(form: Form | None, out: Console, notes: Console, *, rows_only: bool = False) -> Display:
        """Return a display in a form, by default a table for a terminal, else tab-separated lines.

        JSON and CSV leave `out` to rows, and so do all forms with `rows_only`.
        """
        form = form or (Form.TABLE if out.is_terminal else Form.TSV)
        return Display(out, notes, form, rows_only=rows_only or form in (Form.JSON, Form.CSV))

    def answer(self, answer: Answer) -> None:
        """Print an answer: its rows, then their number, its lines and its sentence."""
        if answer.columns:
            names = [column.name for column in answer.columns]
            types = [column.type for column in answer.columns]
            rows = [[readable(*cell) for cell in zip(row, types, strict=True)] for row in answer.rows]
            self.rows(names, rows, answer.tombstones)
            self.note("Limit Reached" if answer.limited else f"{len(rows)} row{'' if len(rows) == 1 else 's'}")
        for line in answer.lines:
            self.out.print(Text(line), soft_wrap=True)
        if answer.message:
            self.say(answer.message)

    def rows(
        self, names: Sequence[str], rows: Iterable[Sequence[object]], tombstones: Collection[int] = frozenset()
    ) -> None:
        """Print rows; `tombstones` are the positions of those that delete."""
        if self.form is Form.TABLE:
            self._table(names, rows, tombstones)
            return
        self.header(names)
        for row in rows:
            self.row(names, row)

    def header(self, names: Sequence[str]) -> None:
        """Print the names of rows that come one by one."""
        match self.form:
            case Form.TABLE:
                self.out.print(Text(" | ".join(names), "bold"), soft_wrap=True)
            case Form.TSV | Form.CSV:
                self._line(self._joined(names))
            case _:
                return

    def row(self, names: Sequence[str], row: Sequence[object], *, tombstone: bool = False) -> None:
        """Print a row by itself, below its header."""
        match self.form:
            case Form.TABLE:
                self.out.print(Text(" | ".join(map(shown, row)), "dim" if tombstone else ""), soft_wrap=True)
            case Form.JSON:
                self._line(to_json(dict(zip(names, row, strict=True))))
            case _:
                self._line(self._joined(row))

    def say(self, sentence: str) -> None:
        """Print what a statement did."""
        (self.notes if self.rows_only else self.out).print(Text(sentence), soft_wrap=True)

    def note(self, sentence: str) -> None:
        """Print what is said about a table, such as the number of its rows; programs count for themselves."""
        if self.form is Form.TABLE:
            (self.notes if self.rows_only else self.out).print(Text(sentence, "dim"), soft_wrap=True)

    def _table(self, names: Sequence[str], rows: Iterable[Sequence[object]], tombstones: Collection[int]) -> None:
        table = Table()
        for name in names:
            table.add_column(
                Text(name),
                width=self.width or None,
                no_wrap=not self.wraps,
                overflow="fold" if self.wraps else "ellipsis",
            )
        for at, row in enumerate(rows):
            table.add_row(*(Text(shown(value)) for value in row), style="dim" if at in tombstones else "")
        self.out.print(table)

    def _joined(self, cells: Sequence[object]) -> str:
        if self.form is Form.TSV:
            return "\t".join(_NULL if cell is None else shown(cell).translate(_TSV) for cell in cells)
        return ",".join("" if cell is None else _quoted(shown(cell)) for cell in cells)

    def _line(self, line: str) -> None:
        # Not `print`, which turns tabs into spaces.
        self.out.file.write(f"{line}\n")


_NULL = "\\N"
"""A NULL among tab-separated values, as databases write it; a text with a backslash has two."""

_TSV = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_QUOTED = re.compile(r'^$|[",\r\n]')
"""What stands in quotes among comma-separated values; without them an empty field is a NULL."""

_ENDLESS = 1_000_000
"""The width of lines that go to no terminal."""


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if _QUOTED.search(text) else text


def open_console(*, stderr: bool = False) -> Console:
    """Open the console of a standard stream; lines are as wide as they are where it is no terminal."""
    console = Console(stderr=stderr)
    if not console.is_terminal:
        console.width = _ENDLESS
    return console


def show_error(console: Console, error: EngineError, text: str | None) -> None:
    """Print an error with the place it is about."""
    console.print(Text(error.render(text), "red"), soft_wrap=True)


def warn(console: Console) -> Callable[[str], None]:
    """Give what prints a sentence that a user should see."""
    return lambda sentence: console.print(Text(sentence, "yellow"), soft_wrap=True)


def report(console: Console) -> Callable[[str], None]:
    """Give what prints a sentence about what the command does now."""
    return lambda sentence: console.print(Text(sentence, "dim"), soft_wrap=True)


def show_totals(console: Console, bad: BadRecords) -> None:
    """Print how many records were bad or late, if any were."""
    if summary := bad.summary():
        warn(console)(summary)


def shown(value: object) -> str:
    """A value as text: NULL by name, text bare, everything else as JSON."""
    match value:
        case None:
            return "NULL"
        case str():
            return value
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case _:
            return to_json(value)


def to_json(value: Any) -> str:
    """Write a value as JSON: bytes in base64, decimals with all their digits."""
    match value:
        case None | bool() | int() | str():
            return json.dumps(value, ensure_ascii=False)
        case Decimal():
            return f"{value:f}"
        case float():
            return json.dumps(value)
        case bytes():
            return json.dumps(base64.b64encode(value).decode("ascii"))
        case Mapping():
            return (
                "{"
                + ", ".join(f"{json.dumps(str(k), ensure_ascii=False)}: {to_json(v)}" for k, v in value.items())
                + "}"
            )
        case _:
            return "[" + ", ".join(to_json(item) for item in value) + "]"
