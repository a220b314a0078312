"""The numeric parts of a `DateTimeFormatter` pattern, as Java's NumberPrinterParser and its kin print and parse them.

`write` gives None for a field that the moment does not have; `read` gives the position behind the part, or `~position` of
the failure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from kestrel_sql.java.time.fields import Field, Moment
from kestrel_sql.java.time.parse_state import Parsing

MOST_DIGITS = 19
_REDUCED_BASE = 2000
_LONG_LIMIT = 2**63


class Sign(Enum):
    """Which signs a number may have."""

    NORMAL = "-"
    NOT_NEGATIVE = ""
    EXCEEDS_PAD = "+-"


@dataclass(frozen=True, slots=True)
class Number:
    """A number of `least` to `most` digits, followed at once by `subsequent` digits of other parts."""

    field: Field
    least: int = 1
    most: int = MOST_DIGITS
    sign: Sign = Sign.NORMAL
    subsequent: int = 0

    @property
    def is_fixed(self) -> bool:
        """Whether it can follow another number without a separator."""
        return self.least == self.most and self.sign is Sign.NOT_NEGATIVE

    def followed_by(self, width: int) -> Number:
        """The same with `width` more digits behind it."""
        return replace(self, subsequent=self.subsequent + width)

    def write(self, moment: Moment) -> str | None:
        """Print the field, padded with zeros.

        Raises:
            ValueError: it is too long or negative where it cannot be.
        """
        value = moment.get(self.field)
        return None if value is None else self._signed(self._shown(value))

    def _shown(self, value: int) -> int:
        return value

    def _signed(self, value: int) -> str:
        digits = str(abs(value))
        if len(digits) > self.most:
            raise ValueError(
                f"Field {self.field.value} cannot be printed: {value} exceeds the maximum print width of {self.most}"
            )
        padded = digits.zfill(self.least)
        if value < 0:
            if self.sign is Sign.NOT_NEGATIVE:
                raise ValueError(f"Field {self.field.value} cannot be printed: {value} is negative")
            return "-" + padded
        return "+" + padded if self.sign is Sign.EXCEEDS_PAD and len(digits) > self.least else padded

    def read(self, parsing: Parsing, text: str, at: int) -> int:
        """Parse the number; a sign only where the pattern allows one."""
        mark = text[at : at + 1]
        if (
            not mark
            or (mark == "+" and self.sign is not Sign.EXCEEDS_PAD)
            or (mark == "-" and self.sign is Sign.NOT_NEGATIVE)
        ):
            return ~at
        start = at + (mark in "+-")
        end = self._end(text, start)
        if end < 0:
            return end
        value = int(text[start:end])
        if value >= _LONG_LIMIT:
            value, end = value // 10, end - 1
        if mark == "-":
            return ~at if value == 0 else self._put(parsing, -value, start, end)
        if self.sign is Sign.EXCEEDS_PAD and (mark == "+") != (end - start > self.least):
            return ~at
        return self._put(parsing, value, start, end)

    def _end(self, text: str, start: int) -> int:
        end = digits_end(text, start, self.most + self.subsequent)
        if end - start < self.least:
            return ~start
        return end if not self.subsequent else start + max(self.least, end - start - self.subsequent)

    def _put(self, parsing: Parsing, value: int, start: int, end: int) -> int:
        return parsing.put(self.field, value, start, end)


@dataclass(frozen=True, slots=True)
class Reduced(Number):
    """The last two digits of a year from 2000 to 2099."""

    def _shown(self, value: int) -> int:
        return abs(value) % 100

    def _put(self, parsing: Parsing, value: int, start: int, end: int) -> int:
        year = value + _REDUCED_BASE if end - start == self.least and value >= 0 else value
        return parsing.put(self.field, year, start, end)


@dataclass(frozen=True, slots=True)
class Fraction(Number):
    """The first digits of the nanoseconds."""

    def write(self, moment: Moment) -> str | None:
        """Print the digits, cut off."""
        value = moment.get(self.field)
        return None if value is None else f"{value:09d}"[: self.most]

    def read(self, parsing: Parsing, text: str, at: int) -> int:
        """Parse exactly so many digits."""
        end = digits_end(text, at, self.most)
        if end - at < self.least:
            return ~at
        return parsing.put(self.field, int(text[at:end].ljust(9, "0")), at, end)


def digits_end(text: str, start: int, most: int) -> int:
    """The position behind the ASCII digits at `start`, at most `most` of them."""
    end = start
    limit = min(len(text), start + most)
    while end < limit and "0" <= text[end] <= "9":
        end += 1
    return end
