"""Backups of a ksqlDB command topic: one command per line, in the spellings that are found in the wild."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """One command; `plan` is the JSON of a `ksqlPlanV1`, and `problem` says why a line is no command.

    `configured` is the server's configuration when the command was issued, `properties` what its user had set on top.
    """

    key: str
    statement: str = ""
    plan: Mapping[str, Any] | None = None
    configured: Mapping[str, object] = field(default_factory=dict)
    properties: Mapping[str, object] = field(default_factory=dict)
    problem: str | None = None


def read_backup(text: str) -> Iterator[CommandRecord]:
    """Read lines `"KEY":{COMMAND}` as ksqlDB's own backup writes them, or objects with `key` and `value`, or bare commands.

    Empty lines and deleted commands are passed over.
    """
    # Not splitlines(): JSON may hold other ends of lines, such as U+2028, inside of a text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            key, value = _split(line.strip(), f"line {number}")
        except (ValueError, RecursionError):
            yield CommandRecord(f"line {number}", problem=f"line {number} is not a command: neither JSON nor KEY:JSON")
            continue
        if value is not None:
            yield _record(key, value)


def _split(line: str, place: str) -> tuple[str, Any]:
    """The key and the command of a line; `place` stands for a missing key."""
    if line.startswith("{"):
        document = json.loads(line)
        if "value" in document:
            return _key(document.get("key"), place), _opened(document["value"])
        return _key(document.get("commandId"), place), document
    if line.startswith('"'):
        key, end = _DECODER.raw_decode(line)
        return _key(key, place), json.loads(line[end:].lstrip().removeprefix(":"))
    key, separator, rest = line.partition(":{")
    if not separator:
        raise ValueError("no command")
    return key, json.loads("{" + rest)


def _opened(value: Any) -> Any:
    """A command that was written as a text of JSON."""
    return json.loads(value) if isinstance(value, str) else value


def _key(key: Any, place: str) -> str:
    match key:
        case str():
            return key
        case {"type": str(kind), "entity": str(entity), "action": str(action)}:
            return f"{kind.lower()}/{entity}/{action.lower()}"
        case _:
            return place


def _record(key: str, value: Any) -> CommandRecord:
    if not isinstance(value, dict):
        return CommandRecord(key, problem="a command is a JSON object")
    plan, statement = value.get("plan"), value.get("statement")
    if plan is not None and not isinstance(plan, dict):
        return CommandRecord(key, problem="`plan` must be an object or null")
    if plan is None and not isinstance(statement, str):
        return CommandRecord(key, problem="the command has neither a `plan` nor a `statement`")
    return CommandRecord(
        key,
        statement=statement if isinstance(statement, str) else "",
        plan=plan,
        configured=_settings(value.get("originalProperties")),
        properties=_settings(value.get("streamsProperties") or value.get("overwriteProperties")),
    )


def _settings(value: Any) -> dict[str, object]:
    return {name: setting for name, setting in value.items() if setting is not None} if isinstance(value, dict) else {}
