"""The entities of ksqlDB's HTTP API as a terminal shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kestrel_sql.cli.render import Display, warn

_HIDDEN = frozenset({"@type", "statementText", "warnings"})


def show_entity(display: Display, entity: Mapping[str, Any]) -> None:
    """Print the answer of a statement: a sentence, else its lists as tables, else its members."""
    status = entity.get("commandStatus")
    if isinstance(status, dict):
        display.say(str(status.get("message", "")))
    elif "message" in entity:
        display.say(str(entity["message"]))
    else:
        _show_members({name: value for name, value in entity.items() if name not in _HIDDEN}, display)
    for warning in entity.get("warnings") or ():
        warn(display.notes)(str(warning.get("message", warning)))


def _show_members(members: Mapping[str, Any], display: Display) -> None:
    if len(members) == 1 and isinstance(next(iter(members.values())), dict):
        members = next(iter(members.values()))
    plain = {name: value for name, value in members.items() if not _is_table(value) and value not in (None, "", [], {})}
    lists = {name: value for name, value in members.items() if _is_table(value)}
    if plain:
        display.rows(("Property", "Value"), [(name, _cell(value)) for name, value in plain.items()])
    for value in lists.values():
        _show_rows(value, display)
    if not plain and not lists:
        display.note("0 rows")


def _show_rows(rows: Sequence[Mapping[str, Any]], display: Display) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    display.rows(names, [[_cell(row.get(name)) for name in names] for row in rows])


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
