"""The fields of `java.time`, and calendar arithmetic for years of any size.

Years are those of the proleptic ISO calendar, dates are days since 1970-01-01, times of day are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from kestrel_sql.java.time.zones import Zone

SECOND_NANOS = 1_000_000_000
HOUR_NANOS = 3_600 * SECOND_NANOS
DAY_NANOS = 24 * HOUR_NANOS


class Field(Enum):
    """A field that a pattern can name: Java's name, and the least and the greatest value if one is checked.

    Members up to OFFSET_SECONDS are in `ChronoField` order.
    """

    NANO_OF_SECOND = "NanoOfSecond", 0, SECOND_NANOS - 1
    NANO_OF_DAY = "NanoOfDay", 0, DAY_NANOS - 1
    MICRO_OF_SECOND = "MicroOfSecond", 0, 999_999
    MILLI_OF_SECOND = "MilliOfSecond", 0, 999
    MILLI_OF_DAY = "MilliOfDay", 0, 86_399_999
    SECOND_OF_MINUTE = "SecondOfMinute", 0, 59
    SECOND_OF_DAY = "SecondOfDay", 0, 86_399
    MINUTE_OF_HOUR = "MinuteOfHour", 0, 59
    HOUR_OF_AMPM = "HourOfAmPm", 0, 11
    CLOCK_HOUR_OF_AMPM = "ClockHourOfAmPm", 1, 12
    HOUR_OF_DAY = "HourOfDay", 0, 23
    CLOCK_HOUR_OF_DAY = "ClockHourOfDay", 1, 24
    AMPM_OF_DAY = "AmPmOfDay", 0, 1
    DAY_OF_WEEK = "DayOfWeek", 1, 7
    ALIGNED_DAY_OF_WEEK_IN_MONTH = "AlignedDayOfWeekInMonth", 1, 7
    DAY_OF_MONTH = "DayOfMonth", 1, 31
    DAY_OF_YEAR = "DayOfYear", 1, 366
    EPOCH_DAY = ("EpochDay",)
    ALIGNED_WEEK_OF_MONTH = "AlignedWeekOfMonth", 1, 5
    MONTH_OF_YEAR = "MonthOfYear", 1, 12
    YEAR_OF_ERA = "YearOfEra", 1, 1_000_000_000
    YEAR = "Year", -999_999_999, 999_999_999
    ERA = "Era", 0, 1
    OFFSET_SECONDS = "OffsetSeconds", -64_800, 64_800
    QUARTER_OF_YEAR = ("QuarterOfYear",)
    MODIFIED_JULIAN_DAY = ("ModifiedJulianDay",)
    LOCAL_DAY_OF_WEEK = "DayOfWeek[WeekFields[SUNDAY,1]]", 1, 7
    WEEK_OF_MONTH = ("WeekOfMonth[WeekFields[SUNDAY,1]]",)
    WEEK_OF_WEEK_BASED_YEAR = ("WeekOfWeekBasedYear[WeekFields[SUNDAY,1]]",)
    WEEK_BASED_YEAR = ("WeekBasedYear[WeekFields[SUNDAY,1]]",)

    def __init__(self, title: str, least: int = 0, most: int = 0) -> None:
        self.title, self.least, self.most = title, least, most

    def __hash__(self) -> int:
        return id(self)


TIME_FIELDS = tuple(Field)[: tuple(Field).index(Field.DAY_OF_WEEK)]
DATE_FIELDS = tuple(Field)[tuple(Field).index(Field.DAY_OF_WEEK) : tuple(Field).index(Field.OFFSET_SECONDS)]


def checked(field: Field, value: int) -> int:
    """Return `value` if it is in the range of the field.

    Raises:
        ValueError: the value is out of range.
    """
    if not field.least <= value <= field.most:
        raise ValueError(f"Invalid value for {field.title} (valid values {field.least} - {field.most}): {value}")
    return value


def is_leap(year: int) -> bool:
    """Whether a year has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    """Return the number of days of a month."""
    if month == 2:
        return 29 if is_leap(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def to_days(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 of a date."""
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def to_civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a date given in days since 1970-01-01."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def day_of_week(days: int) -> int:
    """Return 1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def week_year_start(year: int) -> int:
    """Return the first day of week 1: the Sunday on or before January 1."""
    first = to_days(year, 1, 1)
    return first - day_of_week(first) % 7


def _week_year(days: int, year: int) -> int:
    """Return the year of the week of a date, which is in `year`."""
    return year + 1 if days >= week_year_start(year + 1) else year


_OF_DATE: Mapping[Field, Callable[[int, int, int, int], int]] = {
    Field.YEAR: lambda days, year, month, day: year,
    Field.MONTH_OF_YEAR: lambda days, year, month, day: month,
    Field.DAY_OF_MONTH: lambda days, year, month, day: day,
    Field.YEAR_OF_ERA: lambda days, year, month, day: year if year >= 1 else 1 - year,
    Field.ERA: lambda days, year, month, day: int(year >= 1),
    Field.DAY_OF_YEAR: lambda days, year, month, day: days - to_days(year, 1, 1) + 1,
    Field.DAY_OF_WEEK: lambda days, year, month, day: day_of_week(days),
    Field.QUARTER_OF_YEAR: lambda days, year, month, day: (month + 2) // 3,
    Field.ALIGNED_DAY_OF_WEEK_IN_MONTH: lambda days, year, month, day: (day - 1) % 7 + 1,
    Field.ALIGNED_WEEK_OF_MONTH: lambda days, year, month, day: (day - 1) // 7 + 1,
    Field.EPOCH_DAY: lambda days, year, month, day: days,
    Field.MODIFIED_JULIAN_DAY: lambda days, year, month, day: days + 40_587,
    Field.LOCAL_DAY_OF_WEEK: lambda days, year, month, day: day_of_week(days) % 7 + 1,
    Field.WEEK_OF_MONTH: lambda days, year, month, day: (day - 1 + (day_of_week(days) - day + 1) % 7) // 7 + 1,
    Field.WEEK_OF_WEEK_BASED_YEAR: lambda days, year, month, day: (
        (days - week_year_start(_week_year(days, year))) // 7 + 1
    ),
    Field.WEEK_BASED_YEAR: lambda days, year, month, day: _week_year(days, year),
}

_OF_TIME: Mapping[Field, Callable[[int], int]] = {
    Field.HOUR_OF_DAY: lambda nanos: nanos // HOUR_NANOS,
    Field.MINUTE_OF_HOUR: lambda nanos: nanos // (60 * SECOND_NANOS) % 60,
    Field.SECOND_OF_MINUTE: lambda nanos: nanos // SECOND_NANOS % 60,
    Field.NANO_OF_SECOND: lambda nanos: nanos % SECOND_NANOS,
    Field.AMPM_OF_DAY: lambda nanos: nanos // HOUR_NANOS // 12,
    Field.HOUR_OF_AMPM: lambda nanos: nanos // HOUR_NANOS % 12,
    Field.CLOCK_HOUR_OF_AMPM: lambda nanos: nanos // HOUR_NANOS % 12 or 12,
    Field.CLOCK_HOUR_OF_DAY: lambda nanos: nanos // HOUR_NANOS or 24,
    Field.MILLI_OF_DAY: lambda nanos: nanos // 1_000_000,
    Field.NANO_OF_DAY: lambda nanos: nanos,
    Field.SECOND_OF_DAY: lambda nanos: nanos // SECOND_NANOS,
    Field.MILLI_OF_SECOND: lambda nanos: nanos % SECOND_NANOS // 1_000_000,
    Field.MICRO_OF_SECOND: lambda nanos: nanos % SECOND_NANOS // 1_000,
}


def date_value(field: Field, days: int) -> int | None:
    """Return the value of a field of a date, or None if a date does not have the field."""
    value = _OF_DATE.get(field)
    return None if value is None else value(days, *to_civil(days))


def time_value(field: Field, nanos: int) -> int | None:
    """Return the value of a field of a time of day, or None if a time does not have the field."""
    value = _OF_TIME.get(field)
    return None if value is None else value(nanos)


class Moment(msgspec.Struct, frozen=True):
    """A value to format: a date (days), a time of day (ns), or both in a zone with its offset then (seconds)."""

    days: int | None = None
    nanos: int | None = None
    zone: Zone | None = None
    offset: int | None = None

    def get(self, field: Field) -> int | None:
        """Return the value of a field, or None if the moment does not have it."""
        if field is Field.OFFSET_SECONDS:
            return self.offset
        value = None if self.days is None else date_value(field, self.days)
        if value is None and self.nanos is not None:
            value = time_value(field, self.nanos)
        return value
