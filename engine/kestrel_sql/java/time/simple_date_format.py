"""Parses dates by `SimpleDateFormat` patterns as commons-lang's `FastDateFormat` does in GMT.

It is as lenient as Java's calendar: month 13 and day 32 roll over, text after the last part is ignored, two-digit years
lie between 80 years before and 20 years after today, dates before 1582-10-15 are Julian.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from kestrel_sql.java.time.fields import to_days
from kestrel_sql.java.time.sql_text import GREGORIAN_START
from kestrel_sql.java.time.text_parts import DAYS, MONTHS
from kestrel_sql.java.time.zone_names import zone_names
from kestrel_sql.types.time_units import DAY_MS

_CACHED = 1000
_MAX_LENGTH = 10_000
_MAX_INT = 2**31 - 1
_MAX_DIGITS = 10
_CENTURY_BACK = 80


CalendarFields = dict[str, int]
"""The fields that were set, by their letters in patterns. The last one set comes last: it wins in Java's calendar."""

_NUMBER = re.compile(r"\s*\d+")


class Digits(msgspec.Struct, frozen=True):
    """A number of `count` letters; its shape limits its digits to as many if another number follows directly."""

    field: str
    count: int
    change: Callable[[int], int] = int
    shape: re.Pattern[str] = _NUMBER

    def read(self, fields: CalendarFields, text: str, at: int) -> int:
        """Parse the number; unless its width is limited, whitespace may precede it."""
        match = self.shape.match(text, at)
        digits = match[0].strip().lstrip("0") if match else ""
        if match is None or len(digits) > _MAX_DIGITS or int(digits or 0) > _MAX_INT:
            raise ValueError(f"Unparseable date at index {at}")
        _set(fields, self.field, self.change(int(digits or 0)))
        return match.end()


class NamedValues(msgspec.Struct, frozen=True):
    """One of several names, in any letter case; longer names come before their prefixes."""

    field: str
    values: tuple[tuple[str, int], ...]

    def read(self, fields: CalendarFields, text: str, at: int) -> int:
        """Parse the first name that matches."""
        for word, value in self.values:
            if text[at : at + len(word)].lower() == word:
                _set(fields, self.field, value)
                return at + len(word)
        raise ValueError(f"Unparseable date at index {at}")


class LiteralText(msgspec.Struct, frozen=True):
    """A literal text."""

    text: str

    def read(self, fields: CalendarFields, text: str, at: int) -> int:
        """Parse the text."""
        if not text.startswith(self.text, at):
            raise ValueError(f"Unparseable date at index {at}")
        return at + len(self.text)


class ZoneOffset(msgspec.Struct, frozen=True):
    """An offset from GMT, or the name of a zone if `named`."""

    shape: re.Pattern[str]
    named: bool

    def read(self, fields: CalendarFields, text: str, at: int) -> int:
        """Parse the offset."""
        match = self.shape.match(text, at)
        if match:
            sign, hours, minutes = match.groups()
            total = int(hours or 0) * 3_600 + int(minutes or 0) * 60
            _set(fields, "X", -total if sign == "-" else total)
            return match.end()
        if self.named:
            for name, offset in _zone_offsets():
                if text[at : at + len(name)].lower() == name:
                    _set(fields, "X", offset)
                    return at + len(name)
        raise ValueError(f"Unparseable date at index {at}")


Strategy = Digits | NamedValues | LiteralText | ZoneOffset


def parse_simple_date(text: str, pattern: str) -> int:
    """Read a date and return days since 1970-01-01.

    Raises:
        ValueError: the pattern is invalid, the text does not match, or it has a time of day.
    """
    fields: CalendarFields = {}
    at = 0
    for strategy in compile_simple(pattern):
        at = strategy.read(fields, text, at)
    days, rest = divmod(_millis(fields), DAY_MS)
    if rest:
        raise ValueError("Date format contains time field.")
    return days


@lru_cache(maxsize=_CACHED)
def compile_simple(pattern: str) -> tuple[Strategy, ...]:
    """Compile a pattern.

    Raises:
        ValueError: the pattern has an unknown letter, an open quote or too many characters.
    """
    if len(pattern) > _MAX_LENGTH:
        raise ValueError(f"pattern is longer than {_MAX_LENGTH} characters")
    strategies: list[Strategy] = []
    at = 0
    while at < len(pattern):
        strategy, at = _letters(pattern, at) if _is_letter(pattern[at]) else _quoted(pattern, at)
        strategies.append(strategy)
    following = [*strategies, None][1:]
    return tuple(_limited(strategy, after) for strategy, after in zip(strategies, following, strict=True))


def _limited(strategy: Strategy, after: Strategy | None) -> Strategy:
    if isinstance(strategy, Digits) and isinstance(after, Digits):
        return replace(strategy, shape=re.compile(rf"\d{{1,{strategy.count}}}"))
    return strategy


def _is_letter(mark: str) -> bool:
    return mark.isascii() and mark.isalpha()


def _quoted(pattern: str, at: int) -> tuple[Strategy, int]:
    quoted = False
    text = []
    while at < len(pattern) and (quoted or not _is_letter(pattern[at])):
        mark = pattern[at]
        at += 1
        if mark == "'" and pattern[at : at + 1] != "'":
            quoted = not quoted
            continue
        at += mark == "'"
        text.append(mark)
    if quoted:
        raise ValueError("Unterminated quote")
    return LiteralText("".join(text)), at


def _letters(pattern: str, start: int) -> tuple[Strategy, int]:
    letter, rest = pattern[start], pattern[start:]
    count = len(rest) - len(rest.lstrip(letter))
    strategy = _numeric(letter, count) or _named(letter) or _offset(letter, count)
    if strategy is None:
        raise ValueError(f"Format '{letter * min(count, 10)}' not supported")
    return strategy, start + count


def _numeric(letter: str, count: int) -> Strategy | None:
    match letter:
        case "y" | "Y":
            return Digits("y", count, int if count > 2 else _full_year)
        case "M" | "L" if count < 3:
            return Digits("M", count)
        case "k":
            return Digits("H", count, lambda hour: 0 if hour == 24 else hour)
        case "h":
            return Digits("h", count, lambda hour: 0 if hour == 12 else hour)
        case "K":
            return Digits("h", count)
        case "u":
            return Digits("E", count)
        case "d" | "D" | "H" | "m" | "s" | "S":
            return Digits(letter, count)
        case _:
            return None


def _full_year(value: int) -> int:
    """Complete a year of two digits to the one in the hundred years that began 80 years ago."""
    if value >= 100:
        return value
    start = datetime.now(UTC).year - _CENTURY_BACK
    century = start // 100 * 100
    return century + value if value >= start - century else century + value + 100


def _named(letter: str) -> Strategy | None:
    match letter:
        case "M" | "L":
            return NamedValues("M", _both_lengths(MONTHS))
        case "E":
            return NamedValues("E", _both_lengths(DAYS))
        case "a":
            return NamedValues("a", (("am", 0), ("pm", 1), ("a", 0), ("p", 1)))
        case "G":
            return NamedValues("G", _ERAS)
        case _:
            return None


_ERAS = (("before christ", 0), ("anno domini", 1), ("bc", 0), ("ad", 1), ("b", 0), ("a", 1))


def _both_lengths(names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    long = [(name.lower(), value) for value, name in enumerate(names, start=1)]
    short = [(name[:3], value) for name, value in long]
    return (*long, *short)


_ISO = {
    1: re.compile(r"Z|([+-])(\d\d)()", re.ASCII),
    2: re.compile(r"Z|([+-])(\d\d)(\d\d)", re.ASCII),
    3: re.compile(r"Z|([+-])(\d\d):(\d\d)", re.ASCII),
}
_NUMBERED = re.compile(r"(?:GMT(?=[+-]\d{1,2}:))?([+-])(\d{1,2}(?=:)|\d\d(?=\d\d)):?(\d\d)", re.ASCII | re.IGNORECASE)


def _offset(letter: str, count: int) -> Strategy | None:
    if letter == "X" and count <= 3:
        return ZoneOffset(_ISO[count], named=False)
    if letter in ("z", "Z"):
        return ZoneOffset(_ISO[3], named=False) if letter == "Z" and count == 2 else ZoneOffset(_NUMBERED, named=True)
    return None


@lru_cache(maxsize=1)
def _zone_offsets() -> list[tuple[str, int]]:
    named = {**zone_names(full=True), **zone_names(full=False)}
    offsets = [("gmt", 0), ("utc", 0), ("coordinated universal time", 0), ("greenwich mean time", 0)]
    return sorted(
        [*offsets, *((name, zone.offset_at(0)) for name, zone in named.items())], key=lambda pair: -len(pair[0])
    )


def _set(fields: CalendarFields, field: str, value: int) -> None:
    fields.pop(field, None)
    fields[field] = value


def _millis(fields: CalendarFields) -> int:
    seconds = _hour(fields) * 3_600 + fields.get("m", 0) * 60 + fields.get("s", 0) - fields.get("X", 0)
    return _days(fields) * DAY_MS + seconds * 1_000 + fields.get("S", 0)


def _hour(fields: CalendarFields) -> int:
    order = list(fields)
    halves = [order.index(field) for field in ("h", "a") if field in fields]
    if "H" in fields and (len(halves) < 2 or order.index("H") > max(halves)):
        return fields["H"]
    return fields.get("a", 0) * 12 + fields.get("h", 0)


def _days(fields: CalendarFields) -> int:
    year = fields.get("y", 1970)
    if fields.get("G") == 0:
        year = 1 - year
    order = list(fields)
    if "D" in fields and ("d" not in fields or order.index("D") > order.index("d")):
        month, day = 1, fields["D"]
    else:
        month, day = fields.get("M", 1), fields.get("d", 1)
    years, month = divmod(month - 1, 12)
    days = to_days(year + years, month + 1, 1) + day - 1
    return days if days >= GREGORIAN_START else _julian_days(year + years, month + 1) + day - 1


def _julian_days(year: int, month: int) -> int:
    shifted = year - (month <= 2)
    return 365 * shifted + shifted // 4 + (153 * ((month + 9) % 12) + 2) // 5 - 719_470
