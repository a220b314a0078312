"""Writes days and instants as `java.sql.Date` and `java.sql.Timestamp` do, in which ksqlDB holds them."""

from __future__ import annotations

from kestrel_sql.java.time.fields import to_civil
from kestrel_sql.types.time_units import DAY_MS

GREGORIAN_START = -141_427
"""The day of 1582-10-15; the calendar of these classes is Julian before it."""

FIRST_MS = -(2**63 // 1_000) * 1_000
"""An instant before it, in ms: its second is rounded down to one that 64 bits of ms cannot hold, and overflows."""

LAST_SECOND_MS = 2**63 // 1_000 * 1_000
"""The instant of the last whole second, in ms."""


def instant_of(millis: int) -> int:
    """Return the instant (ms) that a Timestamp of so many ms stands for."""
    return millis if millis >= FIRST_MS else LAST_SECOND_MS + millis % 1_000


def date_text(days: int) -> str:
    """Write days since 1970-01-01 as `Date.toString` does: `2021-05-18`, with four digits of the year of its era."""
    year, month, day = _calendar(days)
    return f"{year % 10_000:04d}-{month:02d}-{day:02d}"


def timestamp_text(millis: int) -> str:
    """Write ms since the epoch as `Timestamp.toString` does: `2021-05-18 13:05:00.5`, with the year of its era."""
    days, of_day = divmod(instant_of(millis), DAY_MS)
    year, month, day = _calendar(days)
    seconds, fraction = divmod(of_day, 1_000)
    clock = f"{seconds // 3_600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{year:04d}-{month:02d}-{day:02d} {clock}.{f'{fraction:03d}'.rstrip('0') or '0'}"


def _calendar(days: int) -> tuple[int, int, int]:
    """Return the year of the era, the month and the day."""
    year, month, day = to_civil(days) if days >= GREGORIAN_START else _julian(days)
    return (year if year > 0 else 1 - year), month, day


def _julian(days: int) -> tuple[int, int, int]:
    cycles, rest = divmod(days + 719_470, 1_461)
    years = min(rest // 365, 3)
    of_year = rest - 365 * years
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return 4 * cycles + years + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1
