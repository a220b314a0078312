"""Reads and writes JSON text as Jackson does in ksqlDB: numbers keep their decimals, objects keep their order.

A node is None, bool, int, `decimal.Decimal` (for a number with a point or an exponent), str, list or dict.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum
from json import JSONDecoder
from typing import Any

from kestrel_sql.java.numbers import java_double
from kestrel_sql.java.time.fields import to_civil
from kestrel_sql.java.time.sql_text import instant_of
from kestrel_sql.java.time.text import checked_time
from kestrel_sql.java.utf16 import units
from kestrel_sql.types.sql_types import Array, Base, Map, Primitive, SqlType, Struct
from kestrel_sql.types.time_units import DAY_MS

WHITESPACE = " \t\n\r"
_MAX_DIGITS = 1_000
_MAX_EXPONENT = 2**31 - 1
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NUMBER_START = frozenset("-0123456789")


class Missing(Enum):
    """Type of the node of an empty text. An Enum member stays identical when it is pickled and sent to workers."""

    MISSING = "missing"


MISSING = Missing.MISSING


def parse_json(text: str) -> object:
    """Read the first JSON value of a text and ignore what follows it; return MISSING if the text is empty.

    Raises:
        ValueError: the text is not JSON, or a number is too long.
        RecursionError: the value is nested too deep.
    """
    start = skip_whitespace(text, 0)
    if start == len(text):
        return MISSING
    node, end = read_value(text, start)
    _check_root(text, start, end)
    return node


def read_value(text: str, start: int) -> tuple[object, int]:
    """Read the value at position `start`; return it and the position after it.

    Raises:
        ValueError: there is no JSON value at `start`.
    """
    node, end = _DECODER.raw_decode(text, start)
    return node, end


def skip_whitespace(text: str, at: int) -> int:
    """Return the position of the first character at or after `at` that is not whitespace."""
    while at < len(text) and text[at] in WHITESPACE:
        at += 1
    return at


def read_items(text: str, start: int) -> Iterator[object]:
    """Yield the elements of the array whose opening bracket is at `start`.

    Raises:
        ValueError: the text is not a JSON array; the elements before the error have been yielded.
    """
    at = skip_whitespace(text, start + 1)
    if text[at : at + 1] == "]":
        return
    while True:
        node, at = read_value(text, at)
        mark_at = skip_whitespace(text, at)
        mark = text[mark_at : mark_at + 1]
        if mark not in (",", "]") or not mark:
            raise ValueError(f"Unexpected character at {mark_at}: expected a comma")
        yield node
        if mark == "]":
            return
        at = skip_whitespace(text, mark_at + 1)


def _check_root(text: str, start: int, end: int) -> None:
    """Check what follows the root value: whitespace after a number, no identifier character after a literal name."""
    after = text[end : end + 1]
    if text[start] in _NUMBER_START and after and after not in WHITESPACE:
        raise ValueError(f"Unexpected character at {end}: expected space separating root-level values")
    if text[start] in "tfn" and after and (after.isalnum() or after in "_$"):
        raise ValueError(f"Unrecognized token at {start}")


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"Number value length ({len(digits)}) exceeds the maximum allowed ({_MAX_DIGITS})")
    return int(digits)


def _decimal(digits: str) -> Decimal:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"Number value length ({len(digits)}) exceeds the maximum allowed ({_MAX_DIGITS})")
    exponent = digits.lower().partition("e")[2]
    if len(exponent.lstrip("+-0")) > 10 or abs(int(exponent or 0)) > _MAX_EXPONENT:
        raise ValueError("Exponent of a number overflows")
    number = Decimal(digits)
    return number.copy_abs() if number.is_zero() else number


def _no_constant(name: str) -> object:
    raise ValueError(f"Unrecognized token '{name}'")


_DECODER = JSONDecoder(parse_int=_integer, parse_float=_decimal, parse_constant=_no_constant)


def write_json(node: Any, write_number: Callable[[int | Decimal], str] = str) -> str:
    """Write a node without whitespace.

    Raises:
        RecursionError: the node is nested too deep.
    """
    match node:
        case None:
            return "null"
        case bool():
            return "true" if node else "false"
        case str():
            return quote_json(node)
        case dict():
            members = (f"{quote_json(key)}:{write_json(value, write_number)}" for key, value in node.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(write_json(item, write_number) for item in node) + "]"
        case _:
            return write_number(node)


def quote_json(text: str) -> str:
    """Write a string in double quotes, with the escapes it needs."""
    return '"' + _ESCAPED.sub(lambda match: _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}", text) + '"'


def write_value(value: Any, sql_type: SqlType | None) -> str:
    """Write a SQL value as JSON: struct fields and map keys sorted, dates and times as strings, bytes in base64.

    Raises:
        ValueError: a key of a map is NULL, or a time is 24:00.
    """
    if value is None or sql_type is None:
        return "null"
    match sql_type:
        case Array(item):
            return "[" + ",".join(write_value(v, item) for v in value) + "]"
        case Map(_, item):
            if None in value:
                raise ValueError("Null key for a Map not allowed in JSON")
            return _write_object([(str(key), write_value(v, item)) for key, v in value.items()])
        case Struct(fields):
            return _write_object([(field.name, write_value(value[field.name], field.type)) for field in fields])
        case Primitive(base):
            return _write_primitive(value, base)
        case _:
            return f"{value:f}"


def _write_object(members: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{quote_json(key)}:{text}" for key, text in sorted(members, key=lambda m: units(m[0]))) + "}"


def _write_primitive(value: Any, base: Base) -> str:
    match base:
        case Base.BOOLEAN:
            return "true" if value else "false"
        case Base.DOUBLE:
            return _write_double(value)
        case Base.STRING:
            return quote_json(value)
        case Base.BYTES:
            return f'"{b64encode(value).decode()}"'
        case Base.DATE:
            return f'"{date_text(value)}"'
        case Base.TIME:
            return f'"{clock_text(value)}"'
        case Base.TIMESTAMP:
            return f'"{timestamp_text(value)}"'
        case _:
            return str(value)


def date_text(days: int) -> str:
    """Write days since 1970-01-01 as Java's LocalDate does: `2021-05-18`; the year before 1 is `0000`."""
    year, month, day = to_civil(days)
    sign = "+" if year > 9_999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _date_text_of_era(days: int) -> str:
    """Write days since 1970-01-01 as Java's pattern `yyyy-MM-dd` does: the year is that of its era."""
    year, month, day = to_civil(days)
    of_era = year if year > 0 else 1 - year
    return f"{'+' if of_era > 9_999 else ''}{of_era:04d}-{month:02d}-{day:02d}"


def timestamp_text(millis: int) -> str:
    """Write ms since the epoch as `2021-05-18T13:05:00.500`."""
    days, of_day = divmod(instant_of(millis), DAY_MS)
    return f"{_date_text_of_era(days)}T{time_text(of_day // 1_000)}.{of_day % 1_000:03d}"


def clock_text(millis: int) -> str:
    """Write a time of day (ms) as `13:05:01`, or as `13:05` if its seconds are 0.

    Raises:
        ValueError: the time is 24:00.
    """
    seconds = checked_time(millis) // 1_000
    return time_text(seconds)[: None if seconds % 60 else 5]


def time_text(seconds: int) -> str:
    """Write seconds since midnight as `13:05:00`."""
    return f"{seconds // 3_600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _write_double(value: float) -> str:
    """Write a DOUBLE; NaN and the infinities, which are not JSON numbers, become strings."""
    text = java_double(value)
    return text if text[-1].isdigit() else f'"{text}"'
