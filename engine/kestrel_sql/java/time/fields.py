"""The fields of `java.time`, and calendar arithmetic for years of any size.

Years are those of the proleptic ISO calendar, dates are days since 1970-01-01, times of day are nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kestrel_sql.java.time.zones import Zone

SECOND_NANOS = 1_000_000_000
HOUR_NANOS = 3_600 * SECOND_NANOS
DAY_NANOS = 24 * HOUR_NANOS


class Field(Enum):
    """A field that a pattern can name, with Java's name; members up to OFFSET_SECONDS are in `ChronoField` order."""

    NANO_OF_SECOND = "NanoOfSecond"
    NANO_OF_DAY = "NanoOfDay"
    MICRO_OF_SECOND = "MicroOfSecond"
    MILLI_OF_SECOND = "MilliOfSecond"
    MILLI_OF_DAY = "MilliOfDay"
    SECOND_OF_MINUTE = "SecondOfMinute"
    SECOND_OF_DAY = "SecondOfDay"
    MINUTE_OF_HOUR = "MinuteOfHour"
    HOUR_OF_AMPM = "HourOfAmPm"
    CLOCK_HOUR_OF_AMPM = "ClockHourOfAmPm"
    HOUR_OF_DAY = "HourOfDay"
    CLOCK_HOUR_OF_DAY = "ClockHourOfDay"
    AMPM_OF_DAY = "AmPmOfDay"
    DAY_OF_WEEK = "DayOfWeek"
    ALIGNED_DAY_OF_WEEK_IN_MONTH = "AlignedDayOfWeekInMonth"
    DAY_OF_MONTH = "DayOfMonth"
    DAY_OF_YEAR = "DayOfYear"
    EPOCH_DAY = "EpochDay"
    ALIGNED_WEEK_OF_MONTH = "AlignedWeekOfMonth"
    MONTH_OF_YEAR = "MonthOfYear"
    YEAR_OF_ERA = "YearOfEra"
    YEAR = "Year"
    ERA = "Era"
    OFFSET_SECONDS = "OffsetSeconds"
    QUARTER_OF_YEAR = "QuarterOfYear"
    MODIFIED_JULIAN_DAY = "ModifiedJulianDay"
    LOCAL_DAY_OF_WEEK = "DayOfWeek[WeekFields[SUNDAY,1]]"
    WEEK_OF_MONTH = "WeekOfMonth[WeekFields[SUNDAY,1]]"
    WEEK_OF_WEEK_BASED_YEAR = "WeekOfWeekBasedYear[WeekFields[SUNDAY,1]]"
    WEEK_BASED_YEAR = "WeekBasedYear[WeekFields[SUNDAY,1]]"

    def __hash__(self) -> int:
        return id(self)


RANGES: dict[Field, tuple[int, int]] = {
    Field.NANO_OF_SECOND: (0, SECOND_NANOS - 1),
    Field.NANO_OF_DAY: (0, DAY_NANOS - 1),
    Field.MICRO_OF_SECOND: (0, 999_999),
    Field.MILLI_OF_SECOND: (0, 999),
    Field.MILLI_OF_DAY: (0, 86_399_999),
    Field.SECOND_OF_MINUTE: (0, 59),
    Field.SECOND_OF_DAY: (0, 86_399),
    Field.MINUTE_OF_HOUR: (0, 59),
    Field.HOUR_OF_AMPM: (0, 11),
    Field.CLOCK_HOUR_OF_AMPM: (1, 12),
    Field.HOUR_OF_DAY: (0, 23),
    Field.CLOCK_HOUR_OF_DAY: (1, 24),
    Field.AMPM_OF_DAY: (0, 1),
    Field.DAY_OF_WEEK: (1, 7),
    Field.ALIGNED_DAY_OF_WEEK_IN_MONTH: (1, 7),
    Field.DAY_OF_MONTH: (1, 31),
    Field.DAY_OF_YEAR: (1, 366),
    Field.ALIGNED_WEEK_OF_MONTH: (1, 5),
    Field.MONTH_OF_YEAR: (1, 12),
    Field.YEAR_OF_ERA: (1, 1_000_000_000),
    Field.YEAR: (-999_999_999, 999_999_999),
    Field.ERA: (0, 1),
    Field.OFFSET_SECONDS: (-64_800, 64_800),
    Field.LOCAL_DAY_OF_WEEK: (1, 7),
}
TIME_FIELDS = tuple(Field)[: tuple(Field).index(Field.DAY_OF_WEEK)]
DATE_FIELDS = tuple(Field)[tuple(Field).index(Field.DAY_OF_WEEK) : tuple(Field).index(Field.OFFSET_SECONDS)]


def checked(field: Field, value: int) -> int:
    """Return `value` if it is in the range of the field.

    Raises:
        ValueError: the value is out of range.
    """
    low, high = RANGES[field]
    if not low <= value <= high:
        raise ValueError(f"Invalid value for {field.value} (valid values {low} - {high}): {value}")
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


def date_value(field: Field, days: int) -> int | None:
    """Return the value of a field of a date, or None if a date does not have the field."""
    year, month, day = to_civil(days)
    match field:
        case Field.YEAR:
            return year
        case Field.MONTH_OF_YEAR:
            return month
        case Field.DAY_OF_MONTH:
            return day
        case _:
            return _derived_date_value(field, days, year, month, day)


def _derived_date_value(field: Field, days: int, year: int, month: int, day: int) -> int | None:
    weekday = day_of_week(days)
    match field:
        case Field.YEAR_OF_ERA:
            return year if year >= 1 else 1 - year
        case Field.ERA:
            return int(year >= 1)
        case Field.DAY_OF_YEAR:
            return days - to_days(year, 1, 1) + 1
        case Field.DAY_OF_WEEK:
            return weekday
        case Field.QUARTER_OF_YEAR:
            return (month + 2) // 3
        case Field.ALIGNED_DAY_OF_WEEK_IN_MONTH:
            return (day - 1) % 7 + 1
        case Field.ALIGNED_WEEK_OF_MONTH:
            return (day - 1) // 7 + 1
        case Field.EPOCH_DAY:
            return days
        case Field.MODIFIED_JULIAN_DAY:
            return days + 40_587
        case _:
            return _week_value(field, days, year, day, weekday)


def _week_value(field: Field, days: int, year: int, day: int, weekday: int) -> int | None:
    week_year = year + 1 if days >= week_year_start(year + 1) else year
    match field:
        case Field.LOCAL_DAY_OF_WEEK:
            return weekday % 7 + 1
        case Field.WEEK_OF_MONTH:
            return (day - 1 + (weekday - day + 1) % 7) // 7 + 1
        case Field.WEEK_OF_WEEK_BASED_YEAR:
            return (days - week_year_start(week_year)) // 7 + 1
        case Field.WEEK_BASED_YEAR:
            return week_year
        case _:
            return None


def time_value(field: Field, nanos: int) -> int | None:
    """Return the value of a field of a time of day, or None if a time does not have the field."""
    hour = nanos // HOUR_NANOS
    match field:
        case Field.HOUR_OF_DAY:
            return hour
        case Field.MINUTE_OF_HOUR:
            return nanos // (60 * SECOND_NANOS) % 60
        case Field.SECOND_OF_MINUTE:
            return nanos // SECOND_NANOS % 60
        case Field.NANO_OF_SECOND:
            return nanos % SECOND_NANOS
        case Field.AMPM_OF_DAY:
            return hour // 12
        case Field.HOUR_OF_AMPM:
            return hour % 12
        case Field.CLOCK_HOUR_OF_AMPM:
            return hour % 12 or 12
        case Field.CLOCK_HOUR_OF_DAY:
            return hour or 24
        case _:
            return _derived_time_value(field, nanos)


def _derived_time_value(field: Field, nanos: int) -> int | None:
    match field:
        case Field.MILLI_OF_DAY:
            return nanos // 1_000_000
        case Field.NANO_OF_DAY:
            return nanos
        case Field.SECOND_OF_DAY:
            return nanos // SECOND_NANOS
        case Field.MILLI_OF_SECOND:
            return nanos % SECOND_NANOS // 1_000_000
        case Field.MICRO_OF_SECOND:
            return nanos % SECOND_NANOS // 1_000
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Moment:
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
