"""Parses ISO timestamps, dates and times for CAST, INSERT and comparisons with times (rules L4.6.8, L11.2 to L11.4).

Trailing parts may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kestrel_sql.java.time.fields import month_length, to_days
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.time_units import DAY_MS, FIRST_DAY, LAST_DAY

_TIMESTAMP_PARTS = re.compile(
    r"([0-9]{4}|\+[0-9]{5,19})((?:-[0-9]{2}){0,2})(?:(?<=-[0-9]{2}-[0-9]{2})T(.*?)(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
"""The year, the day, the time and the offset of a timestamp; a time needs a complete date before it."""

_IN_A_YEAR = re.compile(
    "-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}|24:00:00\.000)"
    "(?:Z|[+-](?:0[0-9]|1[0-7])[0-5][0-9]|[+-]1800)?"
)
"""All parts of a timestamp but its year, without `T` and without a colon in its offset."""

_DATE = re.compile(r"([0-9]{4}|\+[0-9]{5,10}|-[0-9]{4,10})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,9}))?)?")

_DAY_TEMPLATE, _TIME_TEMPLATE = "-01-01", "00:00:00.000"
"""A text is completed with the end of its template."""

_LAST_YEAR = 999_999_999


def parse_timestamp(text: str) -> int:
    """Return ms since the epoch; a text without an offset is in UTC.

    As in Java, a day up to 31 that the month lacks is its last day, and 24:00 is the end of the day.

    Raises:
        ValueError: the text is not such a timestamp.
    """
    parts = _TIMESTAMP_PARTS.fullmatch(text)
    if parts is None:
        raise ValueError(f"'{text}' is not a timestamp")
    years, date, clock, offset = (part or "" for part in parts.groups())
    full = f"{_padded(date, _DAY_TEMPLATE)}{_padded(clock, _TIME_TEMPLATE)}{offset.replace(':', '')}"
    year, month, day = int(years), int(full[1:3]), int(full[4:6])
    if year == 0 or _IN_A_YEAR.fullmatch(full) is None:
        raise ValueError(f"a part of '{text}' is out of range")
    days = to_days(year, month, min(day, month_length(year, month)))
    minutes = int(full[6:8]) * 60 + int(full[9:11]) - _offset_minutes(full[18:])
    millis = days * DAY_MS + minutes * 60_000 + int(full[12:14]) * 1_000 + int(full[15:18])
    if millis >= 2**63:
        raise ValueError(f"'{text}' is later than a timestamp can be")
    return millis


def parse_date(text: str) -> int:
    """Return days since the epoch, at most those of a timestamp.

    Raises:
        ValueError: the text is not a date, or the month lacks the day.
    """
    found = _DATE.fullmatch(text + _DAY_TEMPLATE[3 * min(text.count("-"), 2) :])
    if found is None:
        raise ValueError(f"'{text}' is not a date")
    year, month, day = map(int, found.groups())
    if abs(year) > _LAST_YEAR or (year == 0 and text[0] == "-"):
        raise ValueError(f"'{text}' has no such year")
    if not (1 <= month <= 12 and 1 <= day <= month_length(year, month)):
        raise ValueError(f"{text} does not exist")
    return min(max(to_days(year, month, day), FIRST_DAY), LAST_DAY)


def parse_time(text: str) -> int:
    """Return ms since midnight; digits of the fraction after the third are dropped.

    Raises:
        ValueError: the text is not a time of day.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a time")
    hour, minute, second, fraction = (part or "0" for part in match.groups())
    return ((int(hour) * 60 + int(minute)) * 60 + int(second)) * 1_000 + int(fraction.ljust(3, "0")[:3])


def _padded(text: str, template: str) -> str:
    return text + template[len(text) :]


def _offset_minutes(offset: str) -> int:
    if offset in ("", "Z"):
        return 0
    minutes = int(offset[1:3]) * 60 + int(offset[3:5])
    return -minutes if offset[0] == "-" else minutes


PARSERS: Mapping[t.SqlType, Callable[[str], int]] = {
    t.DATE: parse_date,
    t.TIME: parse_time,
    t.TIMESTAMP: parse_timestamp,
}
