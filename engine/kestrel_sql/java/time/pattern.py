"""Compiles patterns of `java.time.format.DateTimeFormatter` to parts that print and parse.

Letters, counts and limits are those of Java 17. The letter v (generic zone names) is rejected, and B (parts of the day)
does not parse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from string import ascii_letters

import msgspec

from kestrel_sql.java.time.fields import Field, Moment
from kestrel_sql.java.time.number_parts import MAX_DIGITS, Fraction, Number, Reduced, Sign
from kestrel_sql.java.time.parse_state import ParseState
from kestrel_sql.java.time.text_parts import DayPeriod, Literal, Name, OptionalSection, Padded, Part, Style
from kestrel_sql.java.time.zone_parts import LocalizedOffset, Offset, ZoneId, ZoneName

_CACHED = 1000
_MAX_NESTED = 100
_MAX_LENGTH = 10_000
_STYLES = {1: Style.SHORT, 2: Style.SHORT, 3: Style.SHORT, 4: Style.FULL, 5: Style.NARROW}

_ONE_OR_TWO = {
    "d": Field.DAY_OF_MONTH,
    "h": Field.CLOCK_HOUR_OF_AMPM,
    "H": Field.HOUR_OF_DAY,
    "k": Field.CLOCK_HOUR_OF_DAY,
    "K": Field.HOUR_OF_AMPM,
    "m": Field.MINUTE_OF_HOUR,
    "s": Field.SECOND_OF_MINUTE,
}
_UNSIGNED = {"A": Field.MILLI_OF_DAY, "n": Field.NANO_OF_SECOND, "N": Field.NANO_OF_DAY}
_YEARS = {"u": Field.YEAR, "y": Field.YEAR_OF_ERA, "Y": Field.WEEK_BASED_YEAR}
_NAMED = {
    "M": Field.MONTH_OF_YEAR,
    "L": Field.MONTH_OF_YEAR,
    "Q": Field.QUARTER_OF_YEAR,
    "q": Field.QUARTER_OF_YEAR,
    "E": Field.DAY_OF_WEEK,
    "e": Field.DAY_OF_WEEK,
    "c": Field.DAY_OF_WEEK,
}
_RUN = re.compile("p*(?:" + "|".join(f"{letter}+" for letter in ascii_letters if letter != "p") + ")?")
"""A run of one letter, and what pads it."""

_COLONS = {
    1: (False, False, False),
    2: (False, True, False),
    3: (True, True, False),
    4: (False, True, True),
    5: (True, True, True),
}


class Pattern(msgspec.Struct, frozen=True):
    """A compiled pattern: its parts in order."""

    parts: tuple[Part, ...]

    def write(self, moment: Moment) -> str:
        """Print a moment.

        Raises:
            ValueError: the moment lacks a field of the pattern, or a value does not fit.
        """
        printed = []
        for part in self.parts:
            piece = part.write(moment)
            if piece is None:
                raise ValueError(f"Unsupported field for {part}")
            printed.append(piece)
        return "".join(printed)

    def read(self, text: str, *, root: bool) -> ParseState:
        """Parse a whole text, ignoring case.

        Raises:
            ValueError: the text does not match.
        """
        state = ParseState(ignore_case=True, root=root)
        at = 0
        for part in self.parts:
            at = part.read(state, text, at)
            if at < 0:
                raise ValueError(f"Text '{text[:100]}' could not be parsed at index {~at}")
        if at < len(text):
            raise ValueError(f"Text '{text[:100]}' could not be parsed, unparsed text found at index {at}")
        return state


class _Section(msgspec.Struct):
    """The parts inside one pair of brackets; `open` is the index of the number that fixed-width numbers extend."""

    parts: list[Part] = []
    open: int | None = None

    def add(self, part: Part) -> None:
        number = part.part if isinstance(part, Padded) else part
        if not isinstance(number, Number):
            self.open = None
        elif self.open is None or number is not part:
            self.open = len(self.parts)
        else:
            base = self.parts[self.open]
            if not isinstance(base, Number):
                raise ValueError("Java takes no number directly after a padded one")
            if number.is_fixed:
                self.parts[self.open] = base.followed_by(number.max_digits)
            else:
                self.open = len(self.parts)
        self.parts.append(part)


@lru_cache(maxsize=_CACHED)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern.

    Raises:
        ValueError: Java has no such pattern, or it is too long or nested too deep.
    """
    if len(pattern) > _MAX_LENGTH:
        raise ValueError(f"pattern is longer than {_MAX_LENGTH} characters")
    sections = [_Section()]
    for token in _tokens(pattern):
        if token == "[":
            sections[-1].open = None
            sections.append(_Section())
            if len(sections) > _MAX_NESTED:
                raise ValueError("pattern nests too many optional sections")
        elif token == "]":
            if len(sections) == 1:
                raise ValueError("Pattern invalid as it contains ] without previous [")
            _close(sections)
        else:
            sections[-1].add(_part(token))
    while len(sections) > 1:
        _close(sections)
    return Pattern(tuple(sections[0].parts))


def _close(sections: list[_Section]) -> None:
    inner = sections.pop()
    if inner.parts:
        sections[-1].add(OptionalSection(tuple(inner.parts)))


def _tokens(pattern: str) -> Iterator[str]:
    """Split a pattern into runs of one letter, padded or not, brackets, and literals; a literal starts with a quote."""
    at = 0
    while at < len(pattern):
        mark = pattern[at]
        if mark == "'":
            end = _quote_end(pattern, at)
            yield "'" + (pattern[at + 1 : end].replace("''", "'") or "'")
            at = end + 1
        elif _is_letter(mark):
            (token,) = _RUN.findall(pattern, at)[:1]
            yield token
            at += len(token)
        elif mark in "{}#":
            raise ValueError(f"Pattern includes reserved character: '{mark}'")
        else:
            yield mark if mark in "[]" else "'" + mark
            at += 1


def _is_letter(mark: str) -> bool:
    return mark.isascii() and mark.isalpha()


def _quote_end(pattern: str, start: int) -> int:
    at = start + 1
    while (at := pattern.find("'", at)) >= 0:
        if pattern[at + 1 : at + 2] != "'":
            return at
        at += 2
    raise ValueError(f"Pattern ends with an incomplete string literal: {pattern[:100]}")


def _part(token: str) -> Part:
    letter, count = token[0], len(token)
    if letter == "'":
        return Literal(token[1:])
    if letter == "p":
        padded = token.lstrip("p")
        if not padded:
            raise ValueError("Pad letter 'p' must be followed by valid pad pattern")
        return Padded(_part(padded), count - len(padded))
    part = _numeric(letter, count) or _textual(letter, count) or _zonal(letter, count)
    if part is None:
        known = any(make(letter, 1) for make in (_numeric, _textual, _zonal))
        raise ValueError(f"{'Too many pattern letters' if known else 'Unknown pattern letter'}: {letter}")
    return part


def _numeric(letter: str, count: int) -> Part | None:
    if letter in _YEARS:
        return _year(_YEARS[letter], count)
    if letter in _ONE_OR_TWO and count <= 2:
        return _plain(_ONE_OR_TWO[letter], count)
    if letter in _UNSIGNED and count <= MAX_DIGITS:
        return Number(_UNSIGNED[letter], count, MAX_DIGITS, Sign.NOT_NEGATIVE)
    if letter == "S" and count <= 9:
        return Fraction(Field.NANO_OF_SECOND, count, count, Sign.NOT_NEGATIVE)
    if letter == "D" and count <= 3:
        return Number(Field.DAY_OF_YEAR) if count == 1 else Number(Field.DAY_OF_YEAR, count, 3, Sign.NOT_NEGATIVE)
    if letter == "F" and count == 1:
        return Number(Field.ALIGNED_DAY_OF_WEEK_IN_MONTH)
    if letter == "g" and count <= MAX_DIGITS:
        return Number(Field.MODIFIED_JULIAN_DAY, count, MAX_DIGITS)
    return _weekly(letter, count)


def _plain(name: Field, count: int) -> Number:
    return Number(name) if count == 1 else Number(name, count, count, Sign.NOT_NEGATIVE)


def _year(name: Field, count: int) -> Number | None:
    if count == 2:
        return Reduced(name, 2, 2, Sign.NOT_NEGATIVE)
    if count > MAX_DIGITS:
        return None
    return Number(name, count, MAX_DIGITS, Sign.NORMAL if count < 4 else Sign.EXCEEDS_PAD)


def _weekly(letter: str, count: int) -> Number | None:
    match letter, count:
        case "W", 1:
            return Number(Field.WEEK_OF_MONTH, 1, 1, Sign.NOT_NEGATIVE)
        case "w", 1 | 2:
            return Number(Field.WEEK_OF_WEEK_BASED_YEAR, count, 2, Sign.NOT_NEGATIVE)
        case ("e", 1 | 2) | ("c", 1):
            return Number(Field.LOCAL_DAY_OF_WEEK, count, count, Sign.NOT_NEGATIVE)
        case _:
            return None


def _textual(letter: str, count: int) -> Part | None:
    match letter:
        case "a" if count == 1:
            return Name(Field.AMPM_OF_DAY, Style.SHORT)
        case "B" if count in (1, 4, 5):
            return DayPeriod(_STYLES[count])
        case "G" if count <= 5:
            return Name(Field.ERA, _STYLES[count])
        case "c" if count == 2:
            return None
        case "M" | "L" | "Q" | "q" if count <= 2:
            return _plain(_NAMED[letter], count)
        case "M" | "L" | "Q" | "q" | "E" | "e" | "c" if count <= 5:
            return Name(_NAMED[letter], _STYLES[count])
        case _:
            return None


def _zonal(letter: str, count: int) -> Part | None:
    match letter:
        case "X" if count <= 5:
            return Offset("Z", *_COLONS[count])
        case "x" if count <= 5:
            return Offset("+00" if count == 1 else "+0000" if count % 2 == 0 else "+00:00", *_COLONS[count])
        case "Z" if count == 4:
            return LocalizedOffset(full=True)
        case "Z" if count <= 5:
            return Offset("Z", *_COLONS[5]) if count == 5 else Offset("+0000", *_COLONS[2])
        case "O" if count in (1, 4):
            return LocalizedOffset(full=count == 4)
        case "V" if count == 2:
            return ZoneId()
        case "z" if count <= 4:
            return ZoneName(full=count == 4)
        case _:
            return None
