"""Functions of times of day, which are ms since midnight; patterns are those of Java's `DateTimeFormatter`."""

from __future__ import annotations

from kestrel_sql.functions.declaration import scalar
from kestrel_sql.java.time import text as java_time
from kestrel_sql.java.time.text import checked_time
from kestrel_sql.types.time_units import DAY_MS, UNIT_MS

_MOST_MS = (2**63 - 1) // 1_000_000
"""Java counts a span in nanoseconds, and takes the most that 64 bits hold for one that is longer."""


def _shifted(time: int, span: int) -> int:
    return (checked_time(time) + max(-_MOST_MS - 1, min(_MOST_MS, span))) % DAY_MS


@scalar("(unit INTERVALUNIT, interval INT, time TIME) -> TIME", display_name="timeadd")
def timeadd(unit: str, interval: int, time: int) -> int:
    """Add `interval` units, such as HOURS or MILLISECONDS, to a time of day; it wraps around at midnight.

    The time 24:00, which a record may hold, is an error.

    Example: CAST(TIMEADD(HOURS, 2, PARSE_TIME('23:30', 'HH:mm')) AS STRING) -> '01:30'
    """
    return _shifted(time, interval * UNIT_MS[unit])


@scalar("(unit INTERVALUNIT, interval INT, time TIME) -> TIME", display_name="timesub")
def timesub(unit: str, interval: int, time: int) -> int:
    """Subtract `interval` units, such as HOURS or MILLISECONDS, from a time of day; it wraps around at midnight.

    The time 24:00, which a record may hold, is an error.

    Example: CAST(TIMESUB(SECONDS, 5, PARSE_TIME('00:00', 'HH:mm')) AS STRING) -> '23:59:55'
    """
    return _shifted(time, -interval * UNIT_MS[unit])


@scalar("(time TIME, formatPattern STRING) -> STRING", display_name="format_time")
def format_time(time: int, pattern: str) -> str:
    """Format a time of day with a pattern of Java's `DateTimeFormatter`; a field that a time lacks is an error.

    Example: FORMAT_TIME(PARSE_TIME('13:05', 'HH:mm'), 'h:mm:ss.SSS a') -> '1:05:00.000 PM'
    """
    return java_time.format_time(time, pattern)


@scalar("(formattedTime STRING, formatPattern STRING) -> TIME", display_name="parse_time")
def parse_time(text: str, pattern: str) -> int:
    """Parse a time of day with a pattern of Java's `DateTimeFormatter`; a date field in the pattern is an error.

    Example: CAST(PARSE_TIME('01:00:00 pm', 'hh:mm:ss a') AS STRING) -> '13:00'
    """
    return java_time.parse_time(text, pattern)
