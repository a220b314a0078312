"""Literals, optional sections, and the names of months, days, quarters and eras in a `DateTimeFormatter` pattern.

Names are English. With `ParseState.root` set they are those of Java's root locale, which has no long names.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import msgspec

from kestrel_sql.java.time.fields import Field, Moment
from kestrel_sql.java.time.parse_state import ParseState


class Part(Protocol):
    """One part of a pattern."""

    def write(self, moment: Moment) -> str | None:
        """Print the part, or return None if the moment lacks a field it needs."""

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the part at `at`; return the position after it, or `~position` of the error."""


class Style(Enum):
    """How long a name is."""

    SHORT = 0
    FULL = 1
    NARROW = 2


MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")

Names = dict[int, str]


def _numbered(*names: str, first: int = 1) -> Names:
    return dict(enumerate(names, start=first))


_ENGLISH: dict[Field, tuple[Names, Names, Names]] = {
    Field.MONTH_OF_YEAR: (_numbered(*(m[:3] for m in MONTHS)), _numbered(*MONTHS), _numbered(*(m[0] for m in MONTHS))),
    Field.DAY_OF_WEEK: (_numbered(*(d[:3] for d in DAYS)), _numbered(*DAYS), _numbered(*(d[0] for d in DAYS))),
    Field.AMPM_OF_DAY: (_numbered("AM", "PM", first=0),) * 3,
    Field.ERA: (
        _numbered("BC", "AD", first=0),
        _numbered("Before Christ", "Anno Domini", first=0),
        _numbered("B", "A", first=0),
    ),
    Field.QUARTER_OF_YEAR: (_numbered("Q1", "Q2", "Q3", "Q4"), _numbered(*_QUARTERS), _numbered("1", "2", "3", "4")),
}
_ROOT: dict[Field, tuple[Names, Names, Names]] = {
    **_ENGLISH,
    Field.MONTH_OF_YEAR: (
        _ENGLISH[Field.MONTH_OF_YEAR][0],
        _ENGLISH[Field.MONTH_OF_YEAR][0],
        _numbered(*map(str, range(1, 13))),
    ),
    Field.DAY_OF_WEEK: (_ENGLISH[Field.DAY_OF_WEEK][0], _ENGLISH[Field.DAY_OF_WEEK][0], _ENGLISH[Field.DAY_OF_WEEK][2]),
    Field.ERA: (_numbered("BC", "AD", first=0), _numbered("BCE", "CE", first=0), _numbered("BCE", "CE", first=0)),
    Field.QUARTER_OF_YEAR: (
        _ENGLISH[Field.QUARTER_OF_YEAR][0],
        _ENGLISH[Field.QUARTER_OF_YEAR][0],
        _numbered("1", "2", "3", "4"),
    ),
}


class Name(msgspec.Struct, frozen=True):
    """The name of a field's value."""

    field: Field
    style: Style

    def write(self, moment: Moment) -> str | None:
        """Print the English name."""
        value = moment.get(self.field)
        return None if value is None else _ENGLISH[self.field][self.style.value][value]

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the longest matching name; of equal names the one with the highest value."""
        names = (_ROOT if state.root else _ENGLISH)[self.field][self.style.value]
        fitting = [(len(name), value) for value, name in names.items() if state.starts(text, at, name)]
        if not fitting:
            return ~at
        length, value = max(fitting)
        return state.put(self.field, value, at, at + length)


_PERIODS = (
    (1, "midnight"),
    (6 * 60, "at night"),
    (12 * 60, "in the morning"),
    (12 * 60 + 1, "noon"),
    (18 * 60, "in the afternoon"),
    (21 * 60, "in the evening"),
    (24 * 60, "at night"),
)
"""The names of the parts of a day, each with the minute of the day at which it ends."""

_NARROW_PERIODS = {"midnight": "mi", "noon": "n"}


class DayPeriod(msgspec.Struct, frozen=True):
    """The part of the day, such as `in the evening`; it is not read."""

    style: Style

    def write(self, moment: Moment) -> str | None:
        """Print the English name."""
        hour, minute = moment.get(Field.HOUR_OF_DAY), moment.get(Field.MINUTE_OF_HOUR)
        if hour is None or minute is None:
            return None
        name = next(name for end, name in _PERIODS if hour * 60 + minute < end)
        return _NARROW_PERIODS.get(name, name) if self.style is Style.NARROW else name

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Fail."""
        return ~at


class Padded(msgspec.Struct, frozen=True):
    """A part with blanks before it up to a width."""

    part: Part
    width: int

    def write(self, moment: Moment) -> str | None:
        """Print the blanks and the part.

        Raises:
            ValueError: the part is wider.
        """
        text = self.part.write(moment)
        if text is not None and len(text) > self.width:
            raise ValueError(f"Cannot print as output of {len(text)} characters exceeds pad width of {self.width}")
        return None if text is None else text.rjust(self.width)

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the part at the end of the width."""
        end = at + self.width
        start = at + len(text[at:end]) - len(text[at:end].lstrip(" "))
        found = self.part.read(state, text[:end], start) if end <= len(text) else ~at
        return found if found == end else ~at


class Literal(msgspec.Struct, frozen=True):
    """A literal text."""

    text: str

    def write(self, moment: Moment) -> str:
        """Print the text."""
        return self.text

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the text."""
        return at + len(self.text) if state.starts(text, at, self.text) else ~at


class OptionalSection(msgspec.Struct, frozen=True):
    """A section in brackets; it is skipped if a field is missing or the text does not match."""

    parts: tuple[Part, ...]

    def write(self, moment: Moment) -> str:
        """Print the section, or nothing."""
        written = []
        for part in self.parts:
            piece = part.write(moment)
            if piece is None:
                return ""
            written.append(piece)
        return "".join(written)

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the section, or nothing."""
        before = state.copy()
        position = at
        for part in self.parts:
            position = part.read(state, text, position)
            if position < 0:
                state.restore(before)
                return at
        return position
