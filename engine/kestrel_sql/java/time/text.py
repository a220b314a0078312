"""Formats and parses dates and times with Java patterns, as ksqlDB's functions do (rules L11)."""

from __future__ import annotations

from kestrel_sql.java.time.fields import (
    DATE_FIELDS,
    DAY_NANOS,
    HOUR_NANOS,
    SECOND_NANOS,
    Field,
    Moment,
    checked,
    day_of_week,
    is_leap,
    month_length,
    time_value,
    to_civil,
    to_days,
)
from kestrel_sql.java.time.fixed_width import layout_of
from kestrel_sql.java.time.pattern import compile_pattern
from kestrel_sql.java.time.resolve import Resolved, resolve
from kestrel_sql.java.time.sql_text import instant_of
from kestrel_sql.java.time.zones import Zone
from kestrel_sql.types.time_units import DAY_MS

_DAY_SECONDS = 86_400
_MILLI_NANOS = 1_000_000


def format_date(days: int, pattern: str) -> str:
    """Write a date, given in days since 1970-01-01.

    Raises:
        ValueError: the pattern is invalid or has a field that a date lacks.
    """
    layout = layout_of(pattern)
    fast = layout.write(days, 0) if layout is not None and not layout.has_time else None
    return compile_pattern(pattern).write(Moment(days=days)) if fast is None else fast


def format_time(millis: int, pattern: str) -> str:
    """Write a time of day, given in ms.

    Raises:
        ValueError: the pattern is invalid or has a field that a time lacks, or the time is 24:00.
    """
    checked_time(millis)
    layout = layout_of(pattern)
    fast = layout.write(0, millis * _MILLI_NANOS) if layout is not None and not layout.has_date else None
    return compile_pattern(pattern).write(Moment(nanos=millis * _MILLI_NANOS)) if fast is None else fast


def format_instant(millis: int, pattern: str, zone: Zone) -> str:
    """Write an instant, given in ms since the epoch, in a zone.

    Raises:
        ValueError: the pattern is invalid.
    """
    millis = instant_of(millis)
    second = millis // 1_000
    offset = zone.offset_at(second)
    days, of_day = divmod(second + offset, _DAY_SECONDS)
    nanos = of_day * SECOND_NANOS + millis % 1_000 * _MILLI_NANOS
    layout = layout_of(pattern)
    fast = layout.write(days, nanos) if layout is not None else None
    return compile_pattern(pattern).write(Moment(days, nanos, zone, offset)) if fast is None else fast


def checked_time(millis: int) -> int:
    """Return a time of day, given in ms.

    Raises:
        ValueError: it is no `LocalTime`; a serde accepts 24:00.
    """
    if not 0 <= millis < DAY_MS:
        raise ValueError(f"{millis} ms is not a time of day")
    return millis


def parse_date(text: str, pattern: str) -> int:
    """Read a date and return days since 1970-01-01.

    Raises:
        ValueError: the pattern is invalid, the text does not match, or it has no complete date.
    """
    layout = layout_of(pattern)
    fast = layout.read(text) if layout is not None and layout.has_date else None
    if fast is not None:
        return fast[0]
    days = resolve(compile_pattern(pattern).read(text, root=False)).days
    if days is None:
        raise ValueError(f"Text '{text[:100]}' could not be parsed: Unable to obtain LocalDate")
    return days


def parse_time(text: str, pattern: str) -> int:
    """Read a time of day and return ms.

    Raises:
        ValueError: the pattern is invalid, the text does not match, it has no complete time, or it has a date field.
    """
    layout = layout_of(pattern)
    fast = layout.read(text) if layout is not None and layout.has_time and not layout.has_date else None
    if fast is not None:
        return fast[1] // _MILLI_NANOS
    resolved = resolve(compile_pattern(pattern).read(text, root=False))
    for field in DATE_FIELDS:
        if resolved.has(field):
            raise ValueError(f"Time format contains date field: {field.title}")
    if resolved.nanos is None:
        raise ValueError(f"Text '{text[:100]}' could not be parsed: Unable to obtain LocalTime")
    return resolved.nanos // _MILLI_NANOS


def parse_instant(text: str, pattern: str, default: Zone) -> int:
    """Read an instant and return ms since the epoch.

    Missing fields are those of 1970-01-01T00:00 in the zone of the text, or in `default` if the text has none. A local
    time that exists twice is the first one.

    Raises:
        ValueError: the pattern is invalid or the text does not match.
    """
    layout = layout_of(pattern)
    # The fast path needs a fixed offset: in a region a local time may exist twice or not at all.
    fast = layout.read(text) if layout is not None and layout.has_date and default.region is None else None
    if fast is not None:
        days, nanos = fast
        return (days * _DAY_SECONDS - default.fixed) * 1_000 + nanos // _MILLI_NANOS
    resolved = resolve(compile_pattern(pattern).read(text, root=True))
    zone = resolved.zone or default
    days = _days(resolved)
    nanos = _nanos(resolved)
    days, nanos = days + nanos // DAY_NANOS, nanos % DAY_NANOS
    local = days * _DAY_SECONDS + nanos // SECOND_NANOS
    exact = resolved.days is not None and resolved.nanos is not None
    offset = resolved.offset if exact else None
    second = zone.to_instant(local) if offset is None else local - offset
    return second * 1_000 + nanos % SECOND_NANOS // _MILLI_NANOS


def _days(resolved: Resolved) -> int:
    """Return the date; if it is incomplete, its fields overwrite 1970-01-01 in the order of `ChronoField`."""
    if resolved.days is not None:
        return resolved.days
    rest = resolved.rest
    days = 0
    if Field.DAY_OF_WEEK in rest:
        days += checked(Field.DAY_OF_WEEK, rest[Field.DAY_OF_WEEK]) - day_of_week(days)
    if Field.ALIGNED_DAY_OF_WEEK_IN_MONTH in rest:
        aligned = (to_civil(days)[2] - 1) % 7 + 1
        days += checked(Field.ALIGNED_DAY_OF_WEEK_IN_MONTH, rest[Field.ALIGNED_DAY_OF_WEEK_IN_MONTH]) - aligned
    year, month, day = to_civil(days)
    if Field.DAY_OF_MONTH in rest:
        day = checked(Field.DAY_OF_MONTH, rest[Field.DAY_OF_MONTH])
    if Field.DAY_OF_YEAR in rest:
        year, month, day = to_civil(to_days(year, 1, 1) + _day_of_year(rest[Field.DAY_OF_YEAR], year) - 1)
    month = checked(Field.MONTH_OF_YEAR, rest.get(Field.MONTH_OF_YEAR, month))
    day = min(day, month_length(year, month))
    year = checked(Field.YEAR, rest.get(Field.YEAR, year))
    if rest.get(Field.ERA) == 0:
        year = 1 - year
    return to_days(year, month, min(day, month_length(year, month)))


def _day_of_year(value: int, year: int) -> int:
    if checked(Field.DAY_OF_YEAR, value) == 366 and not is_leap(year):
        raise ValueError("Leap day cannot be parsed without supplying the year field")
    return value


def _nanos(resolved: Resolved) -> int:
    """Return the time; if incomplete, its fields overwrite midnight. AM or PM alone may move it out of the day."""
    if resolved.nanos is not None:
        return resolved.nanos
    rest = resolved.rest
    nanos = rest.get(Field.NANO_OF_SECOND, 0) // _MILLI_NANOS * _MILLI_NANOS
    nanos += rest.get(Field.SECOND_OF_MINUTE, 0) * SECOND_NANOS + rest.get(Field.MINUTE_OF_HOUR, 0) * 60 * SECOND_NANOS
    nanos += rest.get(Field.HOUR_OF_AMPM, 0) * HOUR_NANOS
    if Field.HOUR_OF_DAY in rest:
        nanos = nanos % HOUR_NANOS + rest[Field.HOUR_OF_DAY] * HOUR_NANOS
    if Field.AMPM_OF_DAY in rest:
        nanos += (rest[Field.AMPM_OF_DAY] - (time_value(Field.AMPM_OF_DAY, nanos) or 0)) * 12 * HOUR_NANOS
    return nanos
