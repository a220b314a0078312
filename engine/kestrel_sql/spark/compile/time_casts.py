"""Compiles CAST from and to TIME, DATE and TIMESTAMP (rules L4.6.8, L4.6.9), as `casts` does for other types."""

from __future__ import annotations

from functools import partial, reduce

from sqlglot import exp

from kestrel_sql.functions.declaration import Checked
from kestrel_sql.functions.library.spark_sql.expressions import let
from kestrel_sql.java.numbers import INT_MAX, INT_MIN, JAVA_BLANKS
from kestrel_sql.java.time import iso, sql_text
from kestrel_sql.java.time.fields import to_days
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.time_units import DAY_MS

_FIRST_DAY, _LAST_DAY = to_days(1, 1, 1), to_days(9_999, 12, 31)
"""The days of the years that are written with four digits and without an era."""

_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097


def trim(value: Tree) -> Tree:
    """Remove the blanks of Java's `String.trim` at both ends."""
    return s.call("btrim", value, s.text(JAVA_BLANKS))


def null_means_failure(operand: Tree, result: Tree) -> Checked:
    """Fail where the result is NULL and the operand is not."""
    return Checked(result, s.all_of(s.is_not_null(operand), s.is_null(result)), null_on_failure=True)


def matched(value: Tree, pattern: str, group: int = 1) -> Tree:
    """The match of a group if the pattern matches the whole trimmed string, or else the empty string.

    Group 1 is the pattern.
    """
    return s.call("regexp_extract", value, s.text(whole(rf"[\x00-\x20]*({pattern})[\x00-\x20]*")), s.integer(group))


def whole(pattern: str) -> str:
    """Return a pattern that matches a whole string only."""
    # `$` in Java also matches before a final line feed.
    return rf"^(?:{pattern})\z"


def string_to_timestamp(value: Tree) -> Checked:
    """Read a timestamp: ms since the epoch."""

    def part(group: int) -> Tree:
        return matched(value, iso.TIMESTAMP_PARTS, group + 1)

    offset = s.call("replace", part(3), s.text(":"), s.text(""))
    full = s.call("concat", _padded(part(1), iso.DATE_TEMPLATE), _padded(part(2), iso.TIME_TEMPLATE), offset)
    return null_means_failure(value, let([full], _timestamp_millis))


def _timestamp_millis(full: Tree) -> Tree:
    """The ms since the epoch of a timestamp with all its parts; NULL for any other string."""

    def piece(start: int, length: int) -> Tree:
        return _digits(full, start, length)

    month = s.call("make_date", piece(1, 4), piece(6, 2), s.integer(1))
    day = s.call("least", piece(9, 2), s.call("day", s.call("last_day", month)))
    days = s.binary(exp.Add, s.call("unix_date", month), s.binary(exp.Sub, day, s.integer(1)))
    sign = s.if_(
        s.binary(exp.EQ, s.call("substring", full, s.integer(23), s.integer(1)), s.text("-")),
        s.integer(-1),
        s.integer(1),
    )
    offset = _sum((piece(24, 2), 60), (piece(26, 2), 1))
    minutes = s.binary(exp.Sub, _sum((piece(11, 2), 60), (piece(14, 2), 1)), s.binary(exp.Mul, sign, offset))
    total = _sum((days, DAY_MS), (minutes, 60_000), (piece(17, 2), 1_000), (piece(20, 3), 1))
    return s.if_(s.call("rlike", full, s.text(whole(iso.FULL_TIMESTAMP))), total, s.null_of(t.BIGINT))


def _digits(value: Tree, start: int, length: int) -> Tree:
    """The digits at a position as a number, or 0."""
    return s.call(
        "coalesce",
        s.cast(s.call("substring", value, s.integer(start), s.integer(length)), t.INTEGER),
        s.integer(0),
    )


def _sum(*terms: tuple[Tree, int]) -> Tree:
    """The sum of the products, as BIGINT."""
    products = [s.binary(exp.Mul, s.cast(value, t.BIGINT), s.bigint(factor)) for value, factor in terms]
    return reduce(lambda left, right: s.binary(exp.Add, left, right), products)


def _padded(value: Tree, template: str) -> Tree:
    return s.call(
        "concat", value, s.call("substring", s.text(template), s.binary(exp.Add, s.call("length", value), s.integer(1)))
    )


def string_to_date(value: Tree) -> Checked:
    """Read a date: days since the epoch."""
    trimmed = trim(value)
    shaped = s.call("rlike", trimmed, s.text(whole(iso.DATE)))
    parsed = s.call("try_to_timestamp", _padded(trimmed, iso.DATE_TEMPLATE), s.text("yyyy-MM-dd"))
    days = s.call("unix_date", exp.Cast(this=parsed, to=exp.DataType.build("DATE")))
    return null_means_failure(value, s.if_(shaped, days, s.null_of(t.INTEGER)))


def string_to_time(value: Tree) -> Checked:
    """Read a time: ms of the day."""
    trimmed = trim(value)
    shaped = s.call("rlike", trimmed, s.text(whole(iso.TIME)))
    fraction = s.call("rpad", s.call("substring", trimmed, s.integer(10), s.integer(3)), s.integer(3), s.text("0"))
    total = _sum(
        (_digits(trimmed, 1, 2), 3_600_000),
        (_digits(trimmed, 4, 2), 60_000),
        (_digits(trimmed, 7, 2), 1_000),
        (s.cast(fraction, t.INTEGER), 1),
    )
    return null_means_failure(value, s.if_(shaped, s.cast(total, t.INTEGER), s.null_of(t.INTEGER)))


def _instant(value: Tree) -> Tree:
    return s.call("timestamp_millis", s.cast(value, t.BIGINT))


def timestamp_to_string(value: Tree) -> Checked:
    """Write a timestamp."""

    def written(millis: Tree) -> Tree:
        usual = s.call("date_format", _instant(millis), s.text("yyyy-MM-dd'T'HH:mm:ss.SSS"))
        millis = _read(millis)
        clock = s.call("date_format", _instant(s.call("pmod", millis, s.bigint(DAY_MS))), s.text("'T'HH:mm:ss.SSS"))
        far = s.call("concat", let([_days(millis)], _far_day), clock)
        first, last = s.bigint(_FIRST_DAY * DAY_MS), s.bigint((_LAST_DAY + 1) * DAY_MS - 1)
        return s.if_(exp.Between(this=millis, low=first, high=last), usual, far)

    return Checked(let([value], written))


def _read(millis: Tree) -> Tree:
    """The instant that a Timestamp of so many ms stands for (`java.time.sql_text.instant_of`)."""
    wrapped = s.binary(exp.Add, s.bigint(sql_text.LAST_SECOND_MS), s.call("pmod", millis, s.bigint(1_000)))
    return s.if_(s.binary(exp.LT, millis, s.bigint(sql_text.FIRST_MS)), wrapped, millis.copy())


def _far_day(days: Tree, *, of_era: bool = True) -> Tree:
    """Write a day of any year, with its year of era as Java's `yyyy` does, or else as Java's LocalDate does.

    Spark fails for years beyond its own, so it writes the same day in another cycle of 400 years.
    """
    rest = s.call("pmod", days, s.bigint(_CYCLE_DAYS))
    cycles = s.binary(exp.IntDiv, s.binary(exp.Sub, days, rest), s.bigint(_CYCLE_DAYS))
    day = s.call("date_from_unix_date", s.cast(rest, t.INTEGER))
    year = s.binary(exp.Add, s.call("year", day), s.binary(exp.Mul, cycles, s.bigint(_CYCLE_YEARS)))
    # Year 0 is year 1 before our era.
    digits = s.call("greatest", year, s.binary(exp.Sub, s.bigint(1), year)) if of_era else s.call("abs", year)
    minus = s.if_(s.binary(exp.LT, year, s.bigint(0)), s.text("-"), s.text(""))
    beyond = s.binary(exp.GT, digits if of_era else year, s.bigint(9_999))
    sign = s.if_(beyond, s.text("+"), s.text("") if of_era else minus)
    return s.call(
        "concat", sign, s.call("format_string", s.text("%04d"), digits), s.call("date_format", day, s.text("-MM-dd"))
    )


def _days(value: Tree) -> Tree:
    """The day of a timestamp, as BIGINT."""
    before = s.binary(exp.LT, s.binary(exp.Mod, value, s.bigint(DAY_MS)), s.bigint(0))
    return s.binary(exp.Sub, s.binary(exp.IntDiv, value, s.bigint(DAY_MS)), s.if_(before, s.bigint(1), s.bigint(0)))


def timestamp_to_date(value: Tree) -> Checked:
    """Return the day of a timestamp; a day of more than 32 bits fails."""
    days = _days(_read(value))
    least, most = s.bigint(INT_MIN), s.bigint(INT_MAX)
    inside = s.all_of(s.binary(exp.GTE, days, least), s.binary(exp.LTE, days.copy(), most))
    return null_means_failure(value, s.if_(inside, s.cast(days.copy(), t.INTEGER), s.null_of(t.INTEGER)))


def timestamp_to_time(value: Tree) -> Checked:
    """Return the ms of the day of a timestamp."""
    return Checked(s.cast(s.call("pmod", _read(value), s.bigint(DAY_MS)), t.INTEGER))


def date_to_string(value: Tree) -> Checked:
    """Write a date."""

    def written(days: Tree) -> Tree:
        usual = s.cast(s.call("date_from_unix_date", days), t.STRING)
        inside = exp.Between(this=days, low=s.integer(_FIRST_DAY), high=s.integer(_LAST_DAY))
        return s.if_(inside, usual, let([s.cast(days, t.BIGINT)], partial(_far_day, of_era=False)))

    return Checked(let([value], written))


def date_to_timestamp(value: Tree) -> Checked:
    """Return midnight of a day."""
    return Checked(s.binary(exp.Mul, s.cast(value, t.BIGINT), s.bigint(DAY_MS)))


def time_to_string(value: Tree) -> Checked:
    """Write a time without ms, and without seconds if they are 0; 24:00, which a record may hold, fails."""
    whole_minute = s.binary(
        exp.EQ, s.call("pmod", s.binary(exp.IntDiv, value, s.integer(1000)), s.integer(60)), s.integer(0)
    )
    short = s.call("date_format", _instant(value), s.text("HH:mm"))
    usual = s.if_(whole_minute, short, s.call("date_format", _instant(value), s.text("HH:mm:ss")))
    return null_means_failure(value, s.if_(s.binary(exp.LT, value, s.integer(DAY_MS)), usual, s.null_of(t.STRING)))
