"""Answers and errors as a terminal shows them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.readable import readable
from kestrel_sql.errors import EngineError
from kestrel_sql.queries.bad_records import BadRecords


def show(console: Console, answer: Answer, notes: Console | None = None) -> None:
    """Print an answer: its rows as a table, then, to `notes` if it is given, their number and its sentence."""
    said = notes or console
    if answer.columns:
        table = Table()
        for column in answer.columns:
            table.add_column(Text(column.name))
        for at, row in enumerate(answer.rows):
            style = "dim" if at in answer.tombstones else ""
            cells = zip(row, answer.columns, strict=True)
            table.add_row(*(Text(shown(readable(value, column.type))) for value, column in cells), style=style)
        console.print(table)
        ended = "Limit Reached" if answer.limited else f"{len(answer.rows)} row{'' if len(answer.rows) == 1 else 's'}"
        said.print(Text(ended, "dim"))
    for line in answer.lines:
        console.print(Text(line), soft_wrap=True)
    if answer.message:
        said.print(Text(answer.message), soft_wrap=True)


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
    """Print how many records were bad, if any were."""
    if bad.total:
        warn(console)(bad.summary())


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
