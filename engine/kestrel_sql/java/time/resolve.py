"""Combines the fields of a parsed text to a date and a time, as `java.time` does with `ResolverStyle.SMART`.

The steps and their order are those of `java.time.format.Parsed`: simplify the fields, combine them to a date and a time
where there are enough, then check the remaining fields against both.
"""

from __future__ import annotations

import msgspec

from kestrel_sql.java.time.fields import (
    HOUR_NANOS,
    SECOND_NANOS,
    TIME_FIELDS,
    Field,
    checked,
    date_value,
    day_of_week,
    is_leap,
    month_length,
    time_value,
    to_days,
)
from kestrel_sql.java.time.parse_state import ParseState
from kestrel_sql.java.time.zones import Zone, fixed_zone

Fields = dict[Field, int]

_CLOCK = (Field.HOUR_OF_DAY, Field.MINUTE_OF_HOUR, Field.SECOND_OF_MINUTE, Field.NANO_OF_SECOND)


class Resolved(msgspec.Struct):
    """The date (days) and time (ns) of a parsed text if complete, its zone and offset (s), and the unused fields."""

    days: int | None
    nanos: int | None
    zone: Zone | None
    offset: int | None
    rest: Fields

    def has(self, field: Field) -> bool:
        """Whether the text gave the field, directly or as part of its date or time."""
        if field in self.rest or (self.days is not None and date_value(field, self.days) is not None):
            return True
        return self.nanos is not None and time_value(field, self.nanos) is not None


def resolve(state: ParseState) -> Resolved:
    """Combine the fields of a parsed text.

    Raises:
        ValueError: a value is out of range, or two values contradict each other.
    """
    fields = dict(state.fields)
    offset = fields.pop(Field.OFFSET_SECONDS, None)
    zone = state.zone
    if zone is None and offset is not None:
        zone = fixed_zone(offset)
    days = _date(fields)
    _simplify_time(fields)
    nanos, excess = _time(fields)
    for field in TIME_FIELDS:
        if field in fields:
            checked(field, fields[field])
    _cross_check(fields, days, nanos)
    if days is not None and nanos is not None:
        days += excess
    return Resolved(days, nanos, zone, offset, fields)


def _put(fields: Fields, field: Field, value: int) -> None:
    if fields.setdefault(field, value) != value:
        raise ValueError(f"Conflict found: {field.title} {fields[field]} differs from {field.title} {value}")


def _date(fields: Fields) -> int | None:
    _resolve_year_of_era(fields)
    days = _iso_date(fields)
    if days is None and Field.LOCAL_DAY_OF_WEEK in fields:
        fields[Field.DAY_OF_WEEK] = checked(Field.LOCAL_DAY_OF_WEEK, fields.pop(Field.LOCAL_DAY_OF_WEEK)) - 1 or 7
    if days is None and Field.DAY_OF_WEEK in fields:
        days = _week_date(fields)
    if days is None and Field.MODIFIED_JULIAN_DAY in fields:
        days = fields.pop(Field.MODIFIED_JULIAN_DAY) - 40_587
    return days


def _resolve_year_of_era(fields: Fields) -> None:
    of_era = fields.pop(Field.YEAR_OF_ERA, None)
    if of_era is None:
        if Field.ERA in fields:
            checked(Field.ERA, fields[Field.ERA])
        return
    checked(Field.YEAR_OF_ERA, of_era)
    era = fields.pop(Field.ERA, None)
    before_common_era = fields.get(Field.YEAR, 1) <= 0 if era is None else era == 0
    _put(fields, Field.YEAR, 1 - of_era if before_common_era else of_era)


def _iso_date(fields: Fields) -> int | None:
    if Field.YEAR not in fields:
        return None
    if Field.MONTH_OF_YEAR in fields and Field.DAY_OF_MONTH in fields:
        year, month, day = (checked(f, fields.pop(f)) for f in (Field.YEAR, Field.MONTH_OF_YEAR, Field.DAY_OF_MONTH))
        return to_days(year, month, min(day, month_length(year, month)))
    if Field.MONTH_OF_YEAR in fields and Field.ALIGNED_WEEK_OF_MONTH in fields:
        return None
    if Field.DAY_OF_YEAR in fields:
        year, day = (checked(f, fields.pop(f)) for f in (Field.YEAR, Field.DAY_OF_YEAR))
        if day == 366 and not is_leap(year):
            raise ValueError(f"Invalid date 'DayOfYear 366' as '{year}' is not a leap year")
        return to_days(year, 1, 1) + day - 1
    return None


def _week_date(fields: Fields) -> int | None:
    """Return the date given by a day of the week with a week of a month, or with a week of a week-based year."""
    weekday = checked(Field.DAY_OF_WEEK, fields[Field.DAY_OF_WEEK]) % 7
    if Field.YEAR in fields:
        if Field.MONTH_OF_YEAR not in fields or Field.WEEK_OF_MONTH not in fields:
            return None
        year, month = (checked(f, fields.pop(f)) for f in (Field.YEAR, Field.MONTH_OF_YEAR))
        first = to_days(year, month, 1)
        week, most = fields.pop(Field.WEEK_OF_MONTH), 6
    elif Field.WEEK_BASED_YEAR in fields and Field.WEEK_OF_WEEK_BASED_YEAR in fields:
        first = to_days(checked(Field.YEAR, fields.pop(Field.WEEK_BASED_YEAR)), 1, 1)
        week, most = fields.pop(Field.WEEK_OF_WEEK_BASED_YEAR), 53
    else:
        return None
    if not 1 <= week <= most:
        raise ValueError(f"Invalid value for week (valid values 1 - {most}): {week}")
    del fields[Field.DAY_OF_WEEK]
    return first - day_of_week(first) % 7 + (week - 1) * 7 + weekday


def _simplify_time(fields: Fields) -> None:
    for clock, hour, size in (
        (Field.CLOCK_HOUR_OF_DAY, Field.HOUR_OF_DAY, 24),
        (Field.CLOCK_HOUR_OF_AMPM, Field.HOUR_OF_AMPM, 12),
    ):
        value = fields.pop(clock, None)
        if value is not None:
            _put(fields, hour, (checked(clock, value) if value else 0) % size)
    if Field.AMPM_OF_DAY in fields and Field.HOUR_OF_AMPM in fields:
        half, hour_of_half = (checked(f, fields.pop(f)) for f in (Field.AMPM_OF_DAY, Field.HOUR_OF_AMPM))
        _put(fields, Field.HOUR_OF_DAY, half * 12 + hour_of_half)
    nanos = fields.pop(Field.NANO_OF_DAY, None)
    if nanos is not None:
        _split_seconds(fields, checked(Field.NANO_OF_DAY, nanos) // SECOND_NANOS)
        _put(fields, Field.NANO_OF_SECOND, nanos % SECOND_NANOS)
    millis = fields.pop(Field.MILLI_OF_DAY, None)
    if millis is not None:
        _split_seconds(fields, checked(Field.MILLI_OF_DAY, millis) // 1_000)
        _put(fields, Field.MILLI_OF_SECOND, millis % 1_000)


def _split_seconds(fields: Fields, seconds: int) -> None:
    _put(fields, Field.HOUR_OF_DAY, seconds // 3_600)
    _put(fields, Field.MINUTE_OF_HOUR, seconds // 60 % 60)
    _put(fields, Field.SECOND_OF_MINUTE, seconds % 60)


def _time(fields: Fields) -> tuple[int | None, int]:
    """Return the time of day (ns), and 1 as the number of days to add if it was 24:00."""
    _merge_millis(fields)
    _middle_of_half_day(fields)
    given = [fields.get(field) for field in _CLOCK]
    known = [value is not None for value in given]
    if not known[0] or (not known[1] and (known[2] or known[3])) or (known[1] and not known[2] and known[3]):
        return None, 0
    hour, minute, second, nano = (value or 0 for value in given)
    for field in _CLOCK:
        fields.pop(field, None)
    if (hour, minute, second, nano) == (24, 0, 0, 0):
        return 0, 1
    seconds = checked(Field.MINUTE_OF_HOUR, minute) * 60 + checked(Field.SECOND_OF_MINUTE, second)
    return checked(Field.HOUR_OF_DAY, hour) * HOUR_NANOS + seconds * SECOND_NANOS + checked(
        Field.NANO_OF_SECOND, nano
    ), 0


def _middle_of_half_day(fields: Fields) -> None:
    """Take the middle of the half day, 6:00 or 18:00, if AM or PM is all that is known of the time."""
    if Field.AMPM_OF_DAY in fields and not any(other in fields for other in _CLOCK):
        fields[Field.HOUR_OF_DAY] = checked(Field.AMPM_OF_DAY, fields.pop(Field.AMPM_OF_DAY)) * 12 + 6


def _merge_millis(fields: Fields) -> None:
    millis = fields.pop(Field.MILLI_OF_SECOND, None)
    if millis is None:
        return
    _put(fields, Field.NANO_OF_SECOND, millis * 1_000_000 + fields.get(Field.NANO_OF_SECOND, 0) % 1_000_000)


def _cross_check(fields: Fields, days: int | None, nanos: int | None) -> None:
    for field in list(fields):
        actual = None if days is None else date_value(field, days)
        if actual is None and nanos is not None:
            actual = time_value(field, nanos)
        if actual is None:
            continue
        if actual != fields.pop(field):
            raise ValueError(f"Conflict found: Field {field.title} {actual} differs from what the text says")
