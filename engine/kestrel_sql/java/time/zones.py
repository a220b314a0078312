"""Reads and names time zones as `java.time.ZoneId` does, on top of `zoneinfo`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import msgspec

from kestrel_sql.java.time.system_v import system_v

_OFFSET = re.compile(r"([+-])(?:(\d)|(\d\d)(?::?([0-5]\d)(?:(?<=:\d\d):([0-5]\d)|(?<!:\d\d)([0-5]\d))?)?)", re.ASCII)
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_PREFIX = re.compile(r"(UTC|GMT|UT)([+-].*)?")
_NOT_IN_JAVA = frozenset({"EST", "HST", "MST", "ROC", "GMT+0", "GMT-0", "Factory", "localtime", "posixrules"})
_MAX_OFFSET = 18 * 3_600
_EPOCH = datetime(1970, 1, 1)
_CYCLE_SECONDS = 146_097 * 86_400
_FIRST_SECOND = -62_135_596_800 + 2 * 86_400
_SECOND_OF_1900, _SECOND_OF_2037 = -2_208_988_800, 2_114_380_800
_LAST_SECOND = 253_402_300_799 - 2 * 86_400
_LAST_FEBRUARY = (2**63 - 1) // 1_000 - 170 * 86_400
"""The milliseconds of a BIGINT end on 17 August."""


class Zone(msgspec.Struct, frozen=True):
    """A region with rules, or a fixed offset in seconds (`region` is None); `id` is Java's id of it."""

    id: str
    region: ZoneInfo | None
    fixed: int = 0

    @property
    def is_offset(self) -> bool:
        """Whether the zone is a plain offset, a `ZoneOffset` in Java; its only name is its id."""
        return self.id == "Z" or self.id[0] in "+-"

    def offset_at(self, second: int) -> int:
        """Return the offset in seconds at an instant, given in seconds since the epoch."""
        if self.region is None:
            return self.fixed
        return _seconds(self._aware(_within_years(second)).utcoffset())

    def calendar_offset_at(self, second: int) -> int:
        """Return the offset in seconds that the `java.util.TimeZone` of this id has at an instant (seconds).

        It knows no offset before 1900, no seconds of an offset, and of the prefixes only `GMT`. A summer that ends
        after the range of 64-bit milliseconds never begins.
        """
        if self.region is None:
            is_known = self.is_offset or self.id.startswith("GMT")
            return self.fixed if is_known and self.fixed % 60 == 0 else 0
        if second < _SECOND_OF_1900:
            return _standard_offset(self)
        return min(map(self.offset_at, {second, min(second, _LAST_FEBRUARY)}))

    def abbreviation_at(self, second: int) -> str:
        """Return the abbreviation of the zone at an instant (seconds); a number such as `-03` if it has none."""
        if self.region is None:
            return self.id
        return self._aware(_within_years(second)).tzname() or self.id

    def to_instant(self, local_second: int) -> int:
        """Return the instant, in seconds since the epoch, of a local time given in seconds as if it were UTC.

        As in `LocalDateTime.atZone`, a time that exists twice takes its first offset; a time in a gap moves forward by
        the length of the gap.
        """
        if self.region is None:
            return local_second - self.fixed
        local = (_EPOCH + timedelta(seconds=_within_years(local_second))).replace(tzinfo=self.region)
        return local_second - _seconds(local.utcoffset())

    def _aware(self, second: int) -> datetime:
        return (_EPOCH + timedelta(seconds=second)).replace(tzinfo=ZoneInfo("UTC")).astimezone(self.region)


def _seconds(offset: timedelta | None) -> int:
    return int(offset.total_seconds()) if offset is not None else 0


@lru_cache(maxsize=1024)
def _standard_offset(zone: Zone) -> int:
    """The least offset of a year to come: summer time is never less."""
    return min(zone.offset_at(second) for second in range(_SECOND_OF_2037, _SECOND_OF_2037 + 366 * 86_400, 7 * 86_400))


def _within_years(second: int) -> int:
    """Shift an instant by whole 400-year cycles, over which the rules repeat, into the range of `datetime`."""
    if second > _LAST_SECOND:
        return second - ((second - _LAST_SECOND) // _CYCLE_SECONDS + 1) * _CYCLE_SECONDS
    return max(second, _FIRST_SECOND)


UTC = Zone("Z", None, 0)


@lru_cache(maxsize=1024)
def zone_of(name: str) -> Zone:
    """Read a zone id as `ZoneId.of` does: `Z`, an offset, a region, or `UTC`, `GMT` or `UT` with or without an offset.

    Raises:
        ValueError: there is no such zone.
    """
    if name == "Z":
        return UTC
    if name[:1] in ("+", "-"):
        return fixed_zone(_offset_of(name))
    prefixed = _PREFIX.fullmatch(name)
    if prefixed:
        return prefixed_zone(prefixed[1], _offset_of(prefixed[2]) if prefixed[2] else 0)
    if not _REGION.fullmatch(name) or name in _NOT_IN_JAVA or name.startswith(("posix/", "right/")):
        raise ValueError(f"Invalid ID for region-based ZoneId, invalid format: {name[:100]}")
    try:
        return Zone(name, system_v(name) or ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"Unknown time-zone ID: {name[:100]}") from error


def fixed_zone(offset: int) -> Zone:
    """Return the zone with a constant offset in seconds.

    Raises:
        ValueError: the offset exceeds 18 hours.
    """
    return UTC if offset == 0 else Zone(offset_id(offset), None, offset)


def prefixed_zone(prefix: str, offset: int) -> Zone:
    """Return a zone such as `UTC+01:00`; the id is the prefix alone if the offset is 0.

    Raises:
        ValueError: the offset exceeds 18 hours.
    """
    return Zone(prefix + (offset_id(offset) if offset else ""), None, offset)


def offset_id(offset: int) -> str:
    """Return the id of an offset given in seconds, such as `+05:30`.

    Raises:
        ValueError: the offset exceeds 18 hours.
    """
    if abs(offset) > _MAX_OFFSET:
        raise ValueError("Zone offset not in valid range: -18:00 to +18:00")
    minutes, seconds = divmod(abs(offset), 60)
    text = f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{seconds:02d}" if seconds else text


def _offset_of(text: str) -> int:
    match = _OFFSET.fullmatch(text)
    if not match:
        raise ValueError(f"Invalid ID for ZoneOffset, invalid format: {text[:100]}")
    sign, short, hours, minutes, seconds, packed = match.groups()
    total = int(short or hours) * 3_600 + int(minutes or 0) * 60 + int(seconds or packed or 0)
    if total > _MAX_OFFSET:
        raise ValueError("Zone offset not in valid range: -18:00 to +18:00")
    return -total if sign == "-" else total


@lru_cache(maxsize=1)
def region_ids() -> dict[str, str]:
    """Return the ids of all regions by the id in lower case."""
    return {name.lower(): name for name in available_timezones() if name not in _NOT_IN_JAVA}
