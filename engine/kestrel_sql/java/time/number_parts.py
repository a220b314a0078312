"""The numeric parts of a `DateTimeFormatter` pattern, as Java's `NumberPrinterParser` and its subclasses treat them.

`write` returns None for a field that the moment does not have. `read` returns the position after the part, or
`~position` of the error.
"""

from __future__ import annotations

from enum import Enum

import msgspec
from msgspec.structs import replace

from kestrel_sql.java.time.fields import Field, Moment
from kestrel_sql.java.time.parse_state import ParseState

MAX_DIGITS = 19
_REDUCED_BASE = 2000
_LONG_LIMIT = 2**63


class Sign(Enum):
    """The signs that a number may have."""

    NORMAL = "-"
    NOT_NEGATIVE = ""
    EXCEEDS_PAD = "+-"


class Number(msgspec.Struct, frozen=True):
    """A number of `min_digits` to `max_digits` digits.

    Fixed-width parts directly behind it take the last `subsequent` digits.
    """

    field: Field
    min_digits: int = 1
    max_digits: int = MAX_DIGITS
    sign: Sign = Sign.NORMAL
    subsequent: int = 0

    @property
    def is_fixed(self) -> bool:
        """Whether the part can follow another number without a separator."""
        return self.min_digits == self.max_digits and self.sign is Sign.NOT_NEGATIVE

    def followed_by(self, width: int) -> Number:
        """Return this part with `width` more digits of other parts behind it."""
        return replace(self, subsequent=self.subsequent + width)

    def write(self, moment: Moment) -> str | None:
        """Print the field, padded with zeros.

        Raises:
            ValueError: the value has too many digits, or is negative where the pattern allows no sign.
        """
        value = moment.get(self.field)
        return None if value is None else self._signed(self._printed_value(value))

    def _printed_value(self, value: int) -> int:
        return value

    def _signed(self, value: int) -> str:
        digits = str(abs(value))
        if len(digits) > self.max_digits:
            raise ValueError(
                f"Field {self.field.title} cannot be printed: "
                f"{value} exceeds the maximum print width of {self.max_digits}"
            )
        padded = digits.zfill(self.min_digits)
        if value < 0:
            if self.sign is Sign.NOT_NEGATIVE:
                raise ValueError(f"Field {self.field.title} cannot be printed: {value} is negative")
            return "-" + padded
        return "+" + padded if self.sign is Sign.EXCEEDS_PAD and len(digits) > self.min_digits else padded

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the number; accept a sign only where the pattern allows one."""
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
            return ~at if value == 0 else self._put(state, -value, start, end)
        if self.sign is Sign.EXCEEDS_PAD and (mark == "+") != (end - start > self.min_digits):
            return ~at
        return self._put(state, value, start, end)

    def _end(self, text: str, start: int) -> int:
        end = digits_end(text, start, self.max_digits + self.subsequent)
        if end - start < self.min_digits:
            return ~start
        return end if not self.subsequent else start + max(self.min_digits, end - start - self.subsequent)

    def _put(self, state: ParseState, value: int, start: int, end: int) -> int:
        return state.put(self.field, value, start, end)


class Reduced(Number, frozen=True):
    """The last two digits of a year from 2000 to 2099."""

    def _printed_value(self, value: int) -> int:
        return abs(value) % 100

    def _put(self, state: ParseState, value: int, start: int, end: int) -> int:
        year = value + _REDUCED_BASE if end - start == self.min_digits and value >= 0 else value
        return state.put(self.field, year, start, end)


class Fraction(Number, frozen=True):
    """The leading digits of the nanoseconds."""

    def write(self, moment: Moment) -> str | None:
        """Print the digits, truncated."""
        value = moment.get(self.field)
        return None if value is None else f"{value:09d}"[: self.max_digits]

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse exactly as many digits as the pattern has letters."""
        end = digits_end(text, at, self.max_digits)
        if end - at < self.min_digits:
            return ~at
        return state.put(self.field, int(text[at:end].ljust(9, "0")), at, end)


def digits_end(text: str, start: int, max_digits: int) -> int:
    """Return the position after the ASCII digits at `start`, counting at max_digits `max_digits` digits."""
    end = start
    limit = min(len(text), start + max_digits)
    while end < limit and "0" <= text[end] <= "9":
        end += 1
    return end
