"""Read a JSON case file: comments allowed, decimals exact, lines known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import NoReturn

from kestrel_qtt.cases.model import Json
from kestrel_qtt.cases.raw import JsonPath, RawFile, RawItem, TextError

_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n]*")
_BRACKET = re.compile(r'"(?:\\.|[^"\\])*"|[\[{\]}]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_DEPTH = 200
_MAX_DIGITS = 4000


class _DuplicateKeyError(ValueError):
    pass


class _NumberError(ValueError):
    """A string that looks like a number but cannot be read as one."""

    def __init__(self, written: str, message: str) -> None:
        super().__init__(message)
        self.written = written


def _refuse_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateKeyError(
            f"the member {next(n for n in names if names.count(n) > 1)!r} occurs twice in one object"
        )
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise _NumberError(name, f"{name} is not a JSON number")


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise _NumberError(text, f"a number of {len(text)} digits; at most {_MAX_DIGITS} are read")
    return int(text)


def _fraction(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise _NumberError(text, f"the number {text[:40]} is out of range") from error


_EXACT = json.JSONDecoder(
    parse_int=_whole,
    parse_float=_fraction,
    parse_constant=_refuse_constant,
    object_pairs_hook=_refuse_duplicates,
    strict=False,
)
_SKIP = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)


def strip_comments(text: str) -> str:
    """Replace `//` and `/* */` comments outside of strings by blanks, keeping every offset and line."""
    return _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else re.sub(r"[^\n]", " ", m[0]), text)


def parse_json(text: str) -> Json:
    """Parse JSON text with exact decimals, refusing duplicate members; raise TextError."""
    clean = _clean(text)
    start = _blank(clean, 0)
    value, end = _decode(clean, start)
    if _blank(clean, end) != len(clean):
        raise TextError(_line(clean, end), "unexpected text after the value")
    return value


def read_json(text: str) -> RawFile:
    """Read a case file; an element of `tests` that has duplicate members becomes an item with an error."""
    clean = _clean(text)
    start = _blank(clean, 0)
    if clean[start : start + 1] != "{":
        raise TextError(_line(clean, start), "a case file is one object with a list `tests`")
    head: dict[str, Json] = {}
    items: tuple[RawItem, ...] | None = None
    end = start + 1
    for name, key_at, at in _members(clean, start):
        if name in head or (name == "tests" and items is not None):
            raise TextError(_line(clean, key_at), f"the member {name!r} occurs twice in one object")
        if name == "tests" and clean[at : at + 1] == "[":
            items = tuple(_item(clean, element) for element in _elements(clean, at))
            end = _skip(clean, at)
        else:
            head[name], end = _decode(clean, at)
    end = _blank(clean, end) + 1
    if _blank(clean, end) < len(clean):
        raise TextError(_line(clean, end), "unexpected text after the file's object")
    return RawFile(head, items, partial(_locate, clean, start))


def item_span(text: str, index: int) -> tuple[int, int]:
    """The offsets of the first character of element `index` of `tests` and of the one after it."""
    clean = strip_comments(text)
    for name, _, at in _members(clean, _blank(clean, 0)):
        if name == "tests":
            start = list(_elements(clean, at))[index]
            return start, _skip(clean, start)
    raise TextError(1, "`tests` is missing")


def line_of(text: str, path: JsonPath) -> int:
    """The line of the value at `path` in a JSON text, or of its nearest existing parent."""
    clean = strip_comments(text)
    return _locate(clean, _blank(clean, 0), path)


def _clean(text: str) -> str:
    """Blank the comments; raise TextError if the text is nested too deeply for the parser."""
    clean = strip_comments(text)
    depth = 0
    for found in _BRACKET.finditer(clean):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > _MAX_DEPTH:
            raise TextError(_line(clean, found.start()), f"values are nested more than {_MAX_DEPTH} deep")
    return clean


def member_span(text: str, path: JsonPath) -> tuple[int, int] | None:
    """Return the offsets of the first character of the value at `path` and of the one after it.

    None if there is none.
    """
    clean = strip_comments(text)
    at = _blank(clean, 0)
    for step in path:
        found = _step(clean, at, step)
        if found is None:
            return None
        at = found
    return at, _SKIP.raw_decode(clean, at)[1]


def _item(text: str, at: int) -> RawItem:
    locate = partial(_locate, text, at)
    lines_of = partial(_lines_of, text, at)
    try:
        data, end = _decode(text, at)
        _check_surrogates(text, at, end, data)
    except TextError as error:
        return RawItem(None, _line(text, at), locate, lines_of, error)
    return RawItem(data, locate(("name",)), locate, lines_of)


def _decode(text: str, at: int) -> tuple[Json, int]:
    try:
        value, end = _EXACT.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise TextError(error.lineno, error.msg[:1].lower() + error.msg[1:]) from error
    except _NumberError as error:
        raise TextError(_line(text, text.find(error.written, at)), str(error)) from error
    except ValueError as error:
        raise TextError(_line(text, at), str(error)) from error
    return value, end


def _check_surrogates(text: str, at: int, end: int, value: Json) -> None:
    """Refuse a lone surrogate, which no file or terminal can encode."""
    found = _SURROGATE.search(text, at, end)
    if found is None:
        return
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise TextError(_line(text, found.start()), "a string holds half of a surrogate pair") from error


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _skip(text: str, at: int) -> int:
    try:
        return _SKIP.raw_decode(text, at)[1]
    except json.JSONDecodeError as error:
        raise TextError(error.lineno, error.msg[:1].lower() + error.msg[1:]) from error


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Walk an object at `at`: name, offset of the name, offset of the value."""
    at = _blank(text, at + 1)
    while text[at : at + 1] == '"':
        key_at = at
        at = _skip(text, key_at)
        name = text[key_at + 1 : at - 1]
        at = _expect(text, _blank(text, at), ":")
        yield name, key_at, at
        at = _blank(text, _skip(text, at))
        if text[at : at + 1] == "}":
            return
        at = _expect(text, at, ",")
    _expect(text, at, "}")


def _elements(text: str, at: int) -> Iterator[int]:
    """Walk a list at `at`: the offset of every element."""
    at = _blank(text, at + 1)
    while text[at : at + 1] != "]":
        yield at
        at = _blank(text, _skip(text, at))
        if text[at : at + 1] != "]":
            at = _expect(text, at, ",")


def _expect(text: str, at: int, sign: str) -> int:
    if text[at : at + 1] != sign:
        raise TextError(_line(text, at), f"expecting `{sign}`")
    return _blank(text, at + 1)


def _locate(text: str, at: int, path: JsonPath) -> int:
    """The line of `path` below the value at `at`, or of its nearest existing parent."""
    for step in path:
        found = _step(text, at, step)
        if found is None:
            break
        at = found
    return _line(text, at)


def _step(text: str, at: int, step: str | int) -> int | None:
    if isinstance(step, int):
        return (
            next((e for i, e in enumerate(_elements(text, at)) if i == step), None)
            if text[at : at + 1] == "["
            else None
        )
    return (
        next((value for name, _, value in _members(text, at) if name == step), None)
        if text[at : at + 1] == "{"
        else None
    )


def _lines_of(text: str, at: int, member: str) -> list[int]:
    """The line of every element of the list `member` of the object at `at`."""
    start = _step(text, at, member)
    if start is None or text[start : start + 1] != "[":
        return []
    lines, line, last = [], _line(text, start), start
    for element in _elements(text, start):
        line += text.count("\n", last, element)
        last = element
        lines.append(line)
    return lines
