"""Reads Java properties files, the configuration files of Kafka's own tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kestrel_sql.errors import EngineError, unreadable

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


def read_properties(path: Path) -> dict[str, str]:
    """Read a properties file.

    Raises:
        EngineError: the file cannot be read, or a line is not `name=value`; the message does not quote the line, which
            may contain a secret.
    """
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"the Kafka configuration {path} cannot be read: {unreadable(error)}") from error
    except ValueError as error:
        raise EngineError(
            f"the Kafka configuration {path}: {error}", hint="each line is NAME=VALUE, as for Kafka's own tools"
        ) from None


def parse_properties(text: str) -> dict[str, str]:
    """Parse a properties file with Java's rules for comments, continued lines and escapes.

    Raises:
        ValueError: a line has no name, or an invalid Unicode escape.
    """
    found = {}
    for number, line in _logical_lines(text):
        at = _end_of_name(line)
        name = _unescape(line[:at], number)
        if not name:
            raise ValueError(f"line {number} has no name")
        rest = line[at:].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        found[name] = _unescape(rest, number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    joined, start = "", 0
    for number, physical in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = physical.lstrip(_BLANK)
        if not joined and (not line or line[0] in "#!"):
            continue
        start = start or number
        if _is_continued(line):
            joined += line[:-1]
            continue
        yield start, joined + line
        joined, start = "", 0
    if joined:
        yield start, joined


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _end_of_name(line: str) -> int:
    at = 0
    while at < len(line) and line[at] not in f"=:{_BLANK}":
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def _unescape(text: str, line: int) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped == "u":
            raise ValueError(f"line {line} has a \\u without four hexadecimal digits")
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _ESCAPES.get(escaped, escaped)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.|$)", replace, text)
