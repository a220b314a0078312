"""Functions of dates, which are days since 1970-01-01.

Patterns are those of `java.time.format.DateTimeFormatter`, except in PARSE_DATE, which uses `SimpleDateFormat`.
"""

from __future__ import annotations

import time
from functools import partial

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray, Text
from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.java.numbers import INT_MAX, INT_MIN, wrap_integer
from kestrel_sql.java.time import text as java_time
from kestrel_sql.java.time.fixed_width import any_layout_of, layout_of
from kestrel_sql.java.time.simple_date_format import parse_simple_date
from kestrel_sql.types.time_units import DAY_MS, UNIT_MS

_GREGORIAN = -141_427
"""1582-10-15, the first day of the Gregorian calendar in `SimpleDateFormat`, as days since 1970-01-01."""


def _shifted(date: int, span: int) -> int:
    """Add `span` ms; rounds toward zero to days, as Java's `TimeUnit` does."""
    millis = wrap_integer(date * DAY_MS + span, 64)
    return abs(millis) // DAY_MS * (1 if millis >= 0 else -1)


def _shifted_columns(sign: int, unit: Text, interval: ArrowArray, dates: ArrowArray) -> ArrowArray | None:
    if not isinstance(interval, late.pa.Scalar):
        return None
    span = sign * interval.as_py() * UNIT_MS[unit.as_py()]
    days = late.numbers.values_of(dates).astype(late.np.int64) + span // DAY_MS
    if span % DAY_MS or not late.numbers.within(days, INT_MIN, INT_MAX):
        return None
    return late.numbers.array_of(days.astype(late.np.int32), dates)


@scalar(
    "(unit INTERVALUNIT, interval INT, date DATE) -> DATE", display_name="dateadd", columns=partial(_shifted_columns, 1)
)
def dateadd(unit: str, interval: int, date: int) -> int:
    """Add `interval` units, such as DAYS or HOURS, to a date; a partial day is rounded toward 1970-01-01.

    Example: UNIX_DATE(DATEADD(DAYS, 9, FROM_DAYS(1))) -> 10
    """
    return _shifted(date, interval * UNIT_MS[unit])


@scalar(
    "(unit INTERVALUNIT, interval INT, date DATE) -> DATE",
    display_name="datesub",
    columns=partial(_shifted_columns, -1),
)
def datesub(unit: str, interval: int, date: int) -> int:
    """Subtract `interval` units, such as DAYS or HOURS, from a date; a partial day is rounded toward 1970-01-01.

    Example: UNIX_DATE(DATESUB(HOURS, 48, FROM_DAYS(10))) -> 8
    """
    return _shifted(date, -interval * UNIT_MS[unit])


@scalar("(days INT NOT NULL) -> DATE", display_name="from_days")
def from_days(days: int) -> int:
    """Return the date `days` days after 1970-01-01.

    Example: CAST(FROM_DAYS(10) AS STRING) -> '1970-01-11'
    """
    return days


@scalar("() -> INT", name="UNIX_DATE", display_name="unix_date", deterministic=False)
def unix_date_today() -> int:
    """Return the number of days from 1970-01-01 to today in UTC.

    Example: UNIX_DATE() > 18000 -> TRUE
    """
    return int(time.time() * 1000) // DAY_MS


@scalar("(date DATE) -> INT", display_name="unix_date")
def unix_date(date: int) -> int:
    """Return the number of days from 1970-01-01 to `date`.

    Example: UNIX_DATE(FROM_DAYS(100)) -> 100
    """
    return wrap_integer(date, 32)


def _to_int(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("integer overflow")
    return value


def _format_columns(dates: ArrowArray, pattern: ArrowArray) -> ArrowArray | None:
    layout = any_layout_of(pattern.as_py()) if isinstance(pattern, late.pa.Scalar) else None
    if layout is None or layout.has_time:
        return None
    missing = dates.is_null().to_numpy(zero_copy_only=False) if dates.null_count else None
    return late.times.written(layout.parts, late.numbers.values_of(dates).astype(late.np.int64) * DAY_MS, missing)


@scalar("(date DATE, formatPattern STRING) -> STRING", display_name="format_date", columns=_format_columns)
def format_date(date: int, pattern: str) -> str:
    """Format a date with a pattern of Java's `DateTimeFormatter`; a field that a date lacks is an error.

    Example: FORMAT_DATE(FROM_DAYS(18765), 'yyyy-MM-dd') -> '2021-05-18'
    """
    return java_time.format_date(date, pattern)


@scalar(
    "(epochDays INT NOT NULL, formatPattern STRING) -> STRING", display_name="datetostring", columns=_format_columns
)
def datetostring(days: int, pattern: str) -> str:
    """Format the date `epochDays` after 1970-01-01 with a pattern of Java's `DateTimeFormatter`; prefer FORMAT_DATE.

    Example: DATETOSTRING(17662, 'dd-MMM-yyyy') -> '11-May-2018'
    """
    return java_time.format_date(days, pattern)


def _parse_columns(texts: ArrowArray, pattern: ArrowArray) -> ArrowArray | None:
    layout = layout_of(pattern.as_py()) if isinstance(pattern, late.pa.Scalar) else None
    if layout is None or not layout.has_date or layout.has_time:
        return None
    millis = late.times.read(layout.parts, texts)
    if millis is None or not late.numbers.within(millis, _GREGORIAN * DAY_MS, INT_MAX * DAY_MS):
        return None
    return late.pa.array(millis // DAY_MS, late.pa.int32())


@scalar("(formattedDate STRING, formatPattern STRING) -> DATE", display_name="parse_date", columns=_parse_columns)
def parse_date(text: str, pattern: str) -> int:
    """Parse a date with a pattern of Java's `SimpleDateFormat`; a time of day in the string is an error.

    Example: UNIX_DATE(PARSE_DATE('11/05/2019', 'dd/MM/yyyy')) -> 18027
    """
    layout = layout_of(pattern)
    fast = layout.read(text) if layout is not None and layout.has_date and not layout.has_time else None
    return fast[0] if fast is not None and fast[0] >= _GREGORIAN else _to_int(parse_simple_date(text, pattern))


@scalar("(formattedDate STRING, formatPattern STRING) -> INT", nulls=Nulls.BODY, display_name="stringtodate")
def stringtodate(text: str | None, pattern: str | None) -> int:
    """Parse a date with a pattern of Java's `DateTimeFormatter` to days since 1970-01-01; prefer PARSE_DATE.

    A NULL argument is an error.

    Example: STRINGTODATE('01-jan-2022', 'dd-MMM-yyyy') -> 18993
    """
    if text is None or pattern is None:
        raise ValueError("Failed to parse date: NULL")
    return _to_int(java_time.parse_date(text, pattern))
