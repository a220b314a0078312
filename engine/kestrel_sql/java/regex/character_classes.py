"""Computes with sets of characters, each written as the body of a character class of Python's `re`."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

from kestrel_sql.java.regex.time_limit import outside_time_limit

_TOKEN = re.compile(r"\\U([0-9a-f]{8})|\\u([0-9a-f]{4})|\\x([0-9a-f]{2})|\\([tnrfa])|\\?(.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a"}
_HYPHEN = (ord("-"), True)

Ranges = list[tuple[int, int]]


def character(code: int) -> str:
    """Write one character as a member of a set."""
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"


def complement(members: str) -> str:
    """Return the set of all other characters."""
    return _write(_complement(_ranges(members)))


def intersection(left: str, right: str) -> str:
    """Return the characters of both sets; the result may be empty."""
    return _write(_complement(_merged([*_complement(_ranges(left)), *_complement(_ranges(right))])))


@cache
def category(name: str) -> str:
    """Return the characters of a Unicode general category such as `Lu`, or of a group such as `L`; empty if unknown."""
    return _write(_merged(part for own, ranges in _categories().items() if own.startswith(name) for part in ranges))


@cache
@outside_time_limit
def _categories() -> dict[str, Ranges]:
    """Scan all code points. This takes longer than the time limit of one value, so it does not count towards it."""
    found: dict[str, Ranges] = {}
    for code in range(sys.maxunicode + 1):
        ranges = found.setdefault(unicodedata.category(chr(code)), [])
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return found


def _ranges(members: str) -> Ranges:
    codes = list(_codes(members))
    found: Ranges = []
    at = 0
    while at < len(codes):
        first = codes[at][0]
        if codes[at + 1 : at + 2] == [_HYPHEN] and at + 2 < len(codes):
            found.append((first, codes[at + 2][0]))
            at += 3
        else:
            found.append((first, first))
            at += 1
    return _merged(found)


def _codes(members: str) -> Iterator[tuple[int, bool]]:
    """Yield each code point of a set and whether it is written literally, without an escape."""
    for token in _TOKEN.finditer(members):
        *numbers, control, plain = token.groups()
        number = next((text for text in numbers if text is not None), None)
        if number is not None:
            yield int(number, 16), False
        elif control is not None:
            yield ord(_CONTROLS[control]), False
        else:
            yield ord(plain), token[0] == plain


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: Ranges = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _complement(ranges: Ranges) -> Ranges:
    others: Ranges = []
    start = 0
    for first, last in ranges:
        if start < first:
            others.append((start, first - 1))
        start = last + 1
    return [*others, (start, sys.maxunicode)] if start <= sys.maxunicode else others


def _write(ranges: Ranges) -> str:
    return "".join(
        character(first) if first == last else f"{character(first)}-{character(last)}" for first, last in ranges
    )
