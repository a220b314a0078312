"""Bring column lists of CREATE statements to one form, so that two can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"\s*(?:(`(?:[^`]|``)*`)|(\"(?:[^\"]|\"\")*\")|('(?:[^']|'')*')|(\d+(?![\w@]))|(\w[\w@]*)|([<>(),]))", re.UNICODE
)
_ALIASES = {"INT": "INTEGER", "VARCHAR": "STRING", "DEC": "DECIMAL", "NUMERIC": "DECIMAL"}


def canonical_columns(text: str) -> str:
    """Return a column list with quoted names and canonical types; `PRIMARY KEY` becomes `KEY`.

    Raises:
        ValueError: `text` is not a column list.
    """
    tokens = list(_tokens(text))
    position, columns = 0, []
    while position < len(tokens):
        name, position = _name(tokens, position)
        kind, position = _type(tokens, position)
        end = next((i for i in range(position, len(tokens)) if tokens[i] == ("sign", ",")), len(tokens))
        role = "".join(_role(kind, word) for kind, word in tokens[position:end])
        columns.append(f"{name} {kind}{role}")
        position = end + 1
    return ", ".join(columns)


def _role(kind: str, word: str) -> str:
    if kind == "word" and word.upper() == "PRIMARY":
        return ""
    return f" {word.upper()}" if kind == "word" else word


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position, text = 0, text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"cannot read the column list at {text[position:]!r}")
        position = found.end()
        back, double, single, number, word, sign = found.groups()
        if back or double:
            quoted = back or double
            yield "quoted", quoted[1:-1].replace(quoted[0] * 2, quoted[0])
        elif word:
            yield "word", word
        else:
            yield ("text", single) if single else ("number", number) if number else ("sign", sign)


def _at(tokens: list[tuple[str, str]], position: int) -> tuple[str, str]:
    if position >= len(tokens):
        raise ValueError("the column list is incomplete")
    return tokens[position]


def _name(tokens: list[tuple[str, str]], position: int) -> tuple[str, int]:
    kind, word = _at(tokens, position)
    if kind not in ("word", "quoted"):
        raise ValueError(f"expected a column name, got {word!r}")
    name = word.upper() if kind == "word" else word
    return "`" + name.replace("`", "``") + "`", position + 1


def _type(tokens: list[tuple[str, str]], position: int) -> tuple[str, int]:
    """Read a type: a name, with parameters in parentheses or element types in angle brackets."""
    kind, word = _at(tokens, position)
    if kind not in ("word", "quoted"):
        raise ValueError(f"expected a type, got {word!r}")
    name = _ALIASES.get(word.upper(), word.upper())
    position += 1
    following = tokens[position] if position < len(tokens) else ("", "")
    if following == ("sign", "("):
        end = tokens.index(("sign", ")"), position)
        return f"{name}({', '.join(w for k, w in tokens[position:end] if k == 'number')})", end + 1
    if following != ("sign", "<"):
        return name, position
    parts: list[str] = []
    while _at(tokens, position) != ("sign", ">"):
        position += 1
        if name == "STRUCT" and _at(tokens, position) != ("sign", ">"):
            field, position = _name(tokens, position)
            inner, position = _type(tokens, position)
            parts.append(f"{field} {inner}")
        elif name != "STRUCT":
            inner, position = _type(tokens, position)
            parts.append(inner)
    return f"{name}<{', '.join(parts)}>", position + 1
