"""Dates as `SimpleDateFormat` patterns read them, in the manner of commons-lang's `FastDateFormat` in GMT.

Lenient where Java's calendar is: a 13th month or a 32nd day runs over, text behind the last part is ignored, two-digit
years lie within 80 years before and 20 after today, dates before 1582-10-15 are Julian.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache

from kestrel_sql.java.time.fields import to_days
from kestrel_sql.java.time.text_parts import DAYS, MONTHS
from kestrel_sql.java.time.zone_names import zone_names

DAY_MS = 86_400_000
_CACHED = 1000
_MOST_LENGTH = 10_000
_MOST_INT = 2**31 - 1
_MOST_DIGITS = 10
_GREGORIAN_START = to_days(1582, 10, 15)
_CENTURY_BACK = 80


class Slot(Enum):
    """The fields of a calendar that a pattern can set."""

    ERA = "G"
    YEAR = "y"
    MONTH = "M"
    DAY = "d"
    DAY_OF_YEAR = "D"
    WEEKDAY = "E"
    HALF = "a"
    HOUR = "H"
    HOUR_OF_HALF = "h"
    MINUTE = "m"
    SECOND = "s"
    MILLI = "S"
    OFFSET = "X"


Slots = dict[Slot, int]
"""What was set; as in a calendar the last one set comes last."""


@dataclass(frozen=True, slots=True)
class Digits:
    """A number; `width` limits it where another number follows at once."""

    slot: Slot
    count: int
    change: Callable[[int], int] = int
    width: int | None = None

    def read(self, slots: Slots, text: str, at: int) -> int:
        """Parse the number, white space in front of it allowed unless it is limited."""
        start = at
        if self.width is None:
            while start < len(text) and text[start].isspace():
                start += 1
        limit = len(text) if self.width is None else min(len(text), start + self.width)
        end = start
        while end < limit and text[end].isdecimal():
            end += 1
        digits = text[start:end].lstrip("0")
        if end == start or len(digits) > _MOST_DIGITS or int(digits or 0) > _MOST_INT:
            raise ValueError(f"Unparseable date at index {start}")
        _set(slots, self.slot, self.change(int(digits or 0)))
        return end


@dataclass(frozen=True, slots=True)
class Words:
    """One of some words, in any case of letters."""

    slot: Slot
    values: tuple[tuple[str, int], ...]

    def read(self, slots: Slots, text: str, at: int) -> int:
        """Parse the longest word that fits."""
        for word, value in self.values:
            if text[at : at + len(word)].lower() == word:
                _set(slots, self.slot, value)
                return at + len(word)
        raise ValueError(f"Unparseable date at index {at}")


@dataclass(frozen=True, slots=True)
class Quoted:
    """A text that stands for itself."""

    text: str

    def read(self, slots: Slots, text: str, at: int) -> int:
        """Parse the text."""
        if not text.startswith(self.text, at):
            raise ValueError(f"Unparseable date at index {at}")
        return at + len(self.text)


@dataclass(frozen=True, slots=True)
class Shift:
    """An offset from GMT, or the name of a zone where `named`."""

    shape: re.Pattern[str]
    named: bool

    def read(self, slots: Slots, text: str, at: int) -> int:
        """Parse the offset."""
        found = self.shape.match(text, at)
        if found:
            sign, hours, minutes = found.groups()
            total = int(hours or 0) * 3_600 + int(minutes or 0) * 60
            _set(slots, Slot.OFFSET, -total if sign == "-" else total)
            return found.end()
        if self.named:
            for name, offset in _zone_offsets():
                if text[at : at + len(name)].lower() == name:
                    _set(slots, Slot.OFFSET, offset)
                    return at + len(name)
        raise ValueError(f"Unparseable date at index {at}")


Strategy = Digits | Words | Quoted | Shift


def parse_simple_date(text: str, pattern: str) -> int:
    """Read a date; gives days since 1970-01-01.

    Raises:
        ValueError: a bad pattern, a text that does not fit, or a time of the day in it.
    """
    slots: Slots = {}
    at = 0
    for strategy in compile_simple(pattern):
        at = strategy.read(slots, text, at)
    days, rest = divmod(_millis(slots), DAY_MS)
    if rest:
        raise ValueError("Date format contains time field.")
    return days


@lru_cache(maxsize=_CACHED)
def compile_simple(pattern: str) -> tuple[Strategy, ...]:
    """Compile a pattern.

    Raises:
        ValueError: a letter that it cannot have.
    """
    if len(pattern) > _MOST_LENGTH:
        raise ValueError(f"pattern is longer than {_MOST_LENGTH} characters")
    strategies: list[Strategy] = []
    at = 0
    while at < len(pattern):
        strategy, at = _letters(pattern, at) if _is_letter(pattern[at]) else _quoted(pattern, at)
        strategies.append(strategy)
    following = [*strategies[1:], None]
    return tuple(_limited(strategy, after) for strategy, after in zip(strategies, following, strict=True))


def _limited(strategy: Strategy, after: Strategy | None) -> Strategy:
    if isinstance(strategy, Digits) and isinstance(after, Digits):
        return Digits(strategy.slot, strategy.count, strategy.change, strategy.count)
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
    return Quoted("".join(text)), at


def _letters(pattern: str, start: int) -> tuple[Strategy, int]:
    letter = pattern[start]
    at = start
    while at < len(pattern) and pattern[at] == letter:
        at += 1
    count = at - start
    strategy = _numeric(letter, count) or _worded(letter, count) or _shifted(letter, count)
    if strategy is None:
        raise ValueError(f"Format '{letter * min(count, 10)}' not supported")
    return strategy, at


def _numeric(letter: str, count: int) -> Strategy | None:
    match letter:
        case "y" | "Y":
            return Digits(Slot.YEAR, count, int if count > 2 else _full_year)
        case "M" | "L" if count < 3:
            return Digits(Slot.MONTH, count)
        case "k":
            return Digits(Slot.HOUR, count, lambda hour: 0 if hour == 24 else hour)
        case "h":
            return Digits(Slot.HOUR_OF_HALF, count, lambda hour: 0 if hour == 12 else hour)
        case "K":
            return Digits(Slot.HOUR_OF_HALF, count)
        case "u":
            return Digits(Slot.WEEKDAY, count)
        case "d" | "D" | "H" | "m" | "s" | "S":
            return Digits(Slot(letter), count)
        case _:
            return None


def _full_year(value: int) -> int:
    """Two digits are a year of the century that began 80 years ago."""
    if value >= 100:
        return value
    start = datetime.now(UTC).year - _CENTURY_BACK
    century = start // 100 * 100
    return century + value if value >= start - century else century + value + 100


def _worded(letter: str, count: int) -> Strategy | None:
    match letter:
        case "M" | "L":
            return Words(Slot.MONTH, _both_lengths(MONTHS))
        case "E":
            return Words(Slot.WEEKDAY, _both_lengths(DAYS))
        case "a":
            return Words(Slot.HALF, (("am", 0), ("pm", 1), ("a", 0), ("p", 1)))
        case "G":
            return Words(Slot.ERA, (("before christ", 0), ("anno domini", 1), ("bc", 0), ("ad", 1), ("b", 0), ("a", 1)))
        case _:
            return None


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


def _shifted(letter: str, count: int) -> Strategy | None:
    if letter == "X" and count <= 3:
        return Shift(_ISO[count], named=False)
    if letter in ("z", "Z"):
        return Shift(_ISO[3], named=False) if letter == "Z" and count == 2 else Shift(_NUMBERED, named=True)
    return None


@lru_cache(maxsize=1)
def _zone_offsets() -> list[tuple[str, int]]:
    named = {**zone_names(full=True), **zone_names(full=False)}
    offsets = [("gmt", 0), ("utc", 0), ("coordinated universal time", 0), ("greenwich mean time", 0)]
    return sorted(
        [*offsets, *((name, zone.offset_at(0)) for name, zone in named.items())], key=lambda pair: -len(pair[0])
    )


def _set(slots: Slots, slot: Slot, value: int) -> None:
    slots.pop(slot, None)
    slots[slot] = value


def _millis(slots: Slots) -> int:
    seconds = (
        _hour(slots) * 3_600 + slots.get(Slot.MINUTE, 0) * 60 + slots.get(Slot.SECOND, 0) - slots.get(Slot.OFFSET, 0)
    )
    return _days(slots) * DAY_MS + seconds * 1_000 + slots.get(Slot.MILLI, 0)


def _hour(slots: Slots) -> int:
    order = list(slots)
    halves = [order.index(slot) for slot in (Slot.HOUR_OF_HALF, Slot.HALF) if slot in slots]
    if Slot.HOUR in slots and (len(halves) < 2 or order.index(Slot.HOUR) > max(halves)):
        return slots[Slot.HOUR]
    return slots.get(Slot.HALF, 0) * 12 + slots.get(Slot.HOUR_OF_HALF, 0)


def _days(slots: Slots) -> int:
    year = slots.get(Slot.YEAR, 1970)
    if slots.get(Slot.ERA) == 0:
        year = 1 - year
    order = list(slots)
    if Slot.DAY_OF_YEAR in slots and (Slot.DAY not in slots or order.index(Slot.DAY_OF_YEAR) > order.index(Slot.DAY)):
        month, day = 1, slots[Slot.DAY_OF_YEAR]
    else:
        month, day = slots.get(Slot.MONTH, 1), slots.get(Slot.DAY, 1)
    years, month = divmod(month - 1, 12)
    days = to_days(year + years, month + 1, 1) + day - 1
    return days if days >= _GREGORIAN_START else _julian_days(year + years, month + 1) + day - 1


def _julian_days(year: int, month: int) -> int:
    shifted = year - (month <= 2)
    return 365 * shifted + shifted // 4 + (153 * ((month + 9) % 12) + 2) // 5 - 719_470
