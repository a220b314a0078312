"""The entities of ksqlDB's HTTP API as a terminal shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_HIDDEN = frozenset({"@type", "statementText", "warnings"})


def show_entity(out: Console, entity: Mapping[str, Any]) -> None:
    """Print the answer of a statement: a sentence, else its lists as tables, else its members."""
    status = entity.get("commandStatus")
    if isinstance(status, dict):
        out.print(Text(str(status.get("message", ""))), soft_wrap=True)
    elif "message" in entity:
        out.print(Text(str(entity["message"])), soft_wrap=True)
    else:
        _show_members({name: value for name, value in entity.items() if name not in _HIDDEN}, out)
    for warning in entity.get("warnings") or ():
        out.print(Text(str(warning.get("message", warning)), "yellow"), soft_wrap=True)


def _show_members(members: Mapping[str, Any], out: Console) -> None:
    if len(members) == 1 and isinstance(next(iter(members.values())), dict):
        members = next(iter(members.values()))
    plain = {name: value for name, value in members.items() if not _is_table(value) and value not in (None, "", [], {})}
    lists = {name: value for name, value in members.items() if _is_table(value)}
    if plain:
        show_table(out, ("Property", "Value"), [(name, _cell(value)) for name, value in plain.items()])
    for value in lists.values():
        _show_rows(value, out)
    if not plain and not lists:
        out.print(Text("0 rows", "dim"))


def _show_rows(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    show_table(out, names, [[_cell(row.get(name)) for name in names] for row in rows])


def show_table(out: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text as a table."""
    table = Table()
    for name in names:
        table.add_column(Text(name))
    for row in rows:
        table.add_row(*map(Text, row))
    out.print(table)


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _cell(value: Any) -> str:
    """A value in a cell; a SchemaInfo by its type only."""
    match value:
        case None:
            return ""
        case str():
            return value
        case {"type": str(kind), "fields": None, "memberSchema": None}:
            return kind
        case [*parts] if all(isinstance(part, str) for part in parts):
            return ", ".join(parts)
        case _:
            return json.dumps(value, ensure_ascii=False)


def column_names(schema: str) -> list[str]:
    """The names of columns in a schema such as "`ID` INTEGER KEY, `S` STRUCT<`A` INTEGER>"."""
    names, depth, at = [], 0, 0
    while at < len(schema):
        character = schema[at]
        if character == "`":
            end = at + 1
            while schema[end : end + 2] == "``" or schema[end : end + 1] not in ("`", ""):
                end += 2 if schema[end : end + 2] == "``" else 1
            if depth == 0:
                names.append(schema[at + 1 : end].replace("``", "`"))
            at = end
        depth += (character in "<(") - (character in ">)")
        at += 1
    return names
