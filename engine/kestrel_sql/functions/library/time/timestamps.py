"""Functions of timestamps, which are ms since 1970-01-01T00:00 UTC.

Patterns are those of `java.time.format.DateTimeFormatter`; zones are names and offsets of `java.time.ZoneId`.
"""

from __future__ import annotations

import time
from functools import partial

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray, Text
from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.java.numbers import LONG_MAX, LONG_MIN, wrap_integer
from kestrel_sql.java.time import text as java_time
from kestrel_sql.java.time.fixed_width import any_layout_of, layout_of
from kestrel_sql.java.time.zones import UTC, zone_of
from kestrel_sql.types.time_units import UNIT_MS

_DEFAULT_ZONE = "GMT"


def _added_columns(sign: int, unit: Text, interval: ArrowArray, timestamps: ArrowArray) -> ArrowArray | None:
    if not isinstance(interval, late.pa.Scalar):
        return None
    span = wrap_integer(sign * interval.as_py() * UNIT_MS[unit.as_py()], 64)
    return late.pc.add(timestamps, late.pa.scalar(span, late.pa.int64()))  # It wraps as Java does.


_SHIFT = "(unit INTERVALUNIT, interval INT, timestamp TIMESTAMP) -> TIMESTAMP"


@scalar(_SHIFT, display_name="timestampadd", columns=partial(_added_columns, 1))
def timestampadd(unit: str, interval: int, timestamp: int) -> int:
    """Add `interval` units, such as DAYS or SECONDS, to a timestamp.

    Example: UNIX_TIMESTAMP(TIMESTAMPADD(SECONDS, 3, FROM_UNIXTIME(100))) -> 3100
    """
    return wrap_integer(timestamp + interval * UNIT_MS[unit], 64)


@scalar(_SHIFT, display_name="timestampsub", columns=partial(_added_columns, -1))
def timestampsub(unit: str, interval: int, timestamp: int) -> int:
    """Subtract `interval` units, such as DAYS or SECONDS, from a timestamp.

    Example: UNIX_TIMESTAMP(TIMESTAMPSUB(SECONDS, 3, FROM_UNIXTIME(100))) -> -2900
    """
    return wrap_integer(timestamp - interval * UNIT_MS[unit], 64)


@scalar("(epochMilli BIGINT) -> TIMESTAMP", display_name="from_unixtime", columns=lambda array: array)
def from_unixtime(millis: int) -> int:
    """Return the timestamp `epochMilli` milliseconds after 1970-01-01T00:00 UTC.

    Example: CAST(FROM_UNIXTIME(1589234313000) AS STRING) -> '2020-05-11T21:58:33.000'
    """
    return millis


@scalar("() -> BIGINT", name="UNIX_TIMESTAMP", display_name="unix_timestamp", deterministic=False)
def unix_timestamp_now() -> int:
    """Return the number of milliseconds from 1970-01-01T00:00 UTC to now.

    Example: UNIX_TIMESTAMP() > 1500000000000 -> TRUE
    """
    return int(time.time() * 1000)


@scalar("(timestamp TIMESTAMP) -> BIGINT", display_name="unix_timestamp", columns=lambda array: array)
def unix_timestamp(timestamp: int) -> int:
    """Return the number of milliseconds from 1970-01-01T00:00 UTC to `timestamp`.

    Example: UNIX_TIMESTAMP(FROM_UNIXTIME(1589234313000)) -> 1589234313000
    """
    return timestamp


def _to_bigint(value: int) -> int:
    if not LONG_MIN <= value <= LONG_MAX:
        raise ValueError("long overflow")
    return value


@scalar("(timestamp TIMESTAMP, fromTimeZone STRING, toTimeZone STRING) -> TIMESTAMP", display_name="convert_tz")
def convert_tz(timestamp: int, from_zone: str, to_zone: str) -> int:
    """Convert the local time of a timestamp from one time zone to another.

    Example: CAST(CONVERT_TZ(FROM_UNIXTIME(0), '+0200', 'Asia/Tokyo') AS STRING) -> '1970-01-01T07:00:00.000'
    """
    second = timestamp // 1_000
    difference = zone_of(to_zone).calendar_offset_at(second) - zone_of(from_zone).calendar_offset_at(second)
    return wrap_integer(timestamp + difference * 1_000, 64)


def _fixed_zone(zone: Text | None) -> int | None:
    """The offset (ms) of a constant zone; None if it is none, or changes."""
    try:
        found = UTC if zone is None else zone_of(zone.as_py())
    except ValueError:
        return None
    return None if found.region is not None else found.fixed * 1_000


def _format_columns(timestamps: ArrowArray, pattern: ArrowArray, zone: ArrowArray = None) -> ArrowArray | None:
    if not all(isinstance(each, late.pa.Scalar) for each in (pattern, zone) if each is not None):
        return None
    layout, offset = any_layout_of(pattern.as_py()), _fixed_zone(zone)
    values = late.numbers.values_of(timestamps)
    if layout is None or offset is None or late.numbers.largest(values) > _FAR:
        return None
    missing = timestamps.is_null().to_numpy(zero_copy_only=False) if timestamps.null_count else None
    return late.times.written(layout.parts, values + offset, missing)


_FAR = 1 << 62


@scalar(
    "(timestamp TIMESTAMP, formatPattern STRING) -> STRING",
    "(timestamp TIMESTAMP, formatPattern STRING, timeZone STRING) -> STRING",
    display_name="format_timestamp",
    columns=_format_columns,
)
def format_timestamp(timestamp: int, pattern: str, zone: str = _DEFAULT_ZONE) -> str:
    """Format a timestamp with a pattern of Java's `DateTimeFormatter`, in GMT or the given time zone.

    Example: FORMAT_TIMESTAMP(FROM_UNIXTIME(1526075913000), 'dd MMM HH:mm zzz', 'Europe/London') -> '11 May 22:58 BST'
    """
    return java_time.format_instant(timestamp, pattern, zone_of(zone))


@scalar(
    "(epochMilli BIGINT NOT NULL, formatPattern STRING) -> STRING",
    "(epochMilli BIGINT NOT NULL, formatPattern STRING, timeZone STRING) -> STRING",
    display_name="timestamptostring",
    columns=_format_columns,
)
def timestamptostring(millis: int, pattern: str, zone: str = "UTC") -> str:
    """Format milliseconds since 1970-01-01T00:00 UTC with a pattern and a time zone; prefer FORMAT_TIMESTAMP.

    Example: TIMESTAMPTOSTRING(1526075913000, 'yyyy-MM-dd HH:mm', '+05:30') -> '2018-05-12 03:28'
    """
    return java_time.format_instant(millis, pattern, zone_of(zone))


def _parse_columns(texts: ArrowArray, pattern: ArrowArray, zone: ArrowArray = None) -> ArrowArray | None:
    if not all(isinstance(each, late.pa.Scalar) for each in (pattern, zone) if each is not None):
        return None
    layout, offset = layout_of(pattern.as_py()), _fixed_zone(zone)
    millis = None if layout is None or not layout.has_date or offset is None else late.times.read(layout.parts, texts)
    return None if millis is None else late.pa.array(millis - offset, late.pa.int64())


@scalar(
    "(formattedTimestamp STRING, formatPattern STRING) -> TIMESTAMP",
    "(formattedTimestamp STRING, formatPattern STRING, timeZone STRING) -> TIMESTAMP",
    display_name="parse_timestamp",
    columns=_parse_columns,
)
def parse_timestamp(text: str, pattern: str, zone: str = _DEFAULT_ZONE) -> int:
    """Parse a timestamp with a pattern of Java's `DateTimeFormatter`; missing fields are those of 1970-01-01T00:00.

    A string without a time zone is in GMT or the given time zone.

    Example: UNIX_TIMESTAMP(PARSE_TIMESTAMP('2018-05-11T21:58:33z', 'yyyy-MM-dd''T''HH:mm:ssX')) -> 1526075913000
    """
    return _to_bigint(java_time.parse_instant(text, pattern, zone_of(zone)))


@scalar(
    "(formattedTimestamp STRING, formatPattern STRING) -> BIGINT",
    "(formattedTimestamp STRING, formatPattern STRING, timeZone STRING) -> BIGINT",
    nulls=Nulls.BODY,
    display_name="stringtotimestamp",
    columns=_parse_columns,
)
def stringtotimestamp(text: str | None, pattern: str | None, zone: str | None = "UTC") -> int:
    """Parse milliseconds since 1970-01-01T00:00 UTC with a pattern and a time zone; prefer PARSE_TIMESTAMP.

    A NULL argument is an error.

    Example: STRINGTOTIMESTAMP('11.05.18', 'dd.MM.yy') -> 1525996800000
    """
    if text is None or pattern is None or zone is None:
        raise ValueError("Failed to parse timestamp: NULL")
    return _to_bigint(java_time.parse_instant(text, pattern, zone_of(zone)))
