"""Reads backups of a ksqlDB command topic, which have one command per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

TERMINATE_CLUSTER = "TERMINATE CLUSTER;"
"""The statement of the command that ends a service; it is no SQL, where CLUSTER would be the id of a query."""

_DECODER = json.JSONDecoder(parse_float=Decimal)
"""Sizes of windows have nine decimal places, more than a float may hold."""


class CommandRecord(msgspec.Struct, frozen=True):
    """One command.

    Attributes:
        key: the key of the record, such as `stream/S/create`, or the line number if there is none.
        statement: the SQL text; may be empty if there is a plan.
        plan: the JSON of a `ksqlPlanV1`; None for commands that ksqlDB stores without a plan.
        configured: the server's configuration when the command was issued.
        properties: the properties that the user had set.
        problem: why the line is not a command; None for a command.
    """

    key: str
    statement: str = ""
    plan: Mapping[str, Any] | None = None
    configured: Mapping[str, object] = {}
    properties: Mapping[str, object] = {}
    problem: str | None = None

    @property
    def ends_service(self) -> bool:
        """Whether it is TERMINATE CLUSTER."""
        return self.plan is None and self.statement.strip().upper() == TERMINATE_CLUSTER

    @property
    def deleted_topics(self) -> list[str]:
        """The patterns of the sink topics that TERMINATE CLUSTER deletes."""
        patterns = self.properties.get("deleteTopicList")
        return [each for each in patterns if isinstance(each, str)] if isinstance(patterns, list) else []


def read_backup(text: str) -> Iterator[CommandRecord]:
    """Read the commands of a backup.

    A line is `"KEY":{COMMAND}`, as ksqlDB's backup writes it, an object with `key` and `value`, or a bare command.
    Empty lines and deleted commands are skipped.
    """
    # Not splitlines(): JSON strings may contain other line separators, such as U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            key, value = _split(line.strip(), f"line {number}")
        except (ValueError, RecursionError):
            yield CommandRecord(f"line {number}", problem=f"line {number} is not a command: expected JSON or KEY:JSON")
            continue
        if value is not None:
            yield _record(key, value)


def is_backup(text: str) -> bool:
    """Whether a line of a text is a command, as no line of a script is."""
    for line in filter(None, map(str.strip, text.split("\n"))):
        try:
            if isinstance(_split(line, "")[1], dict):
                return True
        except (ValueError, RecursionError):
            continue
    return False


def _split(line: str, default_key: str) -> tuple[str, object]:
    """Return the key and the command of a line."""
    if line.startswith("{"):
        document = _DECODER.decode(line)
        if "value" in document:
            return _key(document.get("key"), default_key), _parsed(document["value"])
        return _key(document.get("commandId"), default_key), document
    if line.startswith('"'):
        key, end = _DECODER.raw_decode(line)
        return _key(key, default_key), _DECODER.decode(line[end:].lstrip().removeprefix(":"))
    key, separator, rest = line.partition(":{")
    if not separator:
        raise ValueError("not a command")
    return key, _DECODER.decode("{" + rest)


def _parsed(value: object) -> object:
    """Parse a command that is a string of JSON."""
    return _DECODER.decode(value) if isinstance(value, str) else value


def _key(key: object, default_key: str) -> str:
    match key:
        case str():
            return key
        case {"type": str(kind), "entity": str(entity), "action": str(action)}:
            return f"{kind.lower()}/{entity}/{action.lower()}"
        case _:
            return default_key


def _record(key: str, value: object) -> CommandRecord:
    if not isinstance(value, dict):
        return CommandRecord(key, problem="a command must be a JSON object")
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


def _settings(value: object) -> dict[str, object]:
    return {name: setting for name, setting in value.items() if setting is not None} if isinstance(value, dict) else {}
