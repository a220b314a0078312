"""The zone and offset parts of a `DateTimeFormatter` pattern: X x Z O V z."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from kestrel_sql.java.time.fields import DAY_NANOS, SECOND_NANOS, Field, Moment
from kestrel_sql.java.time.parse_state import ParseState
from kestrel_sql.java.time.zone_names import zone_name, zone_names
from kestrel_sql.java.time.zones import UTC, Zone, fixed_zone, prefixed_zone, region_ids, zone_of

_DAY_SECONDS = DAY_NANOS // SECOND_NANOS
_HOURS = re.compile(r"[+-](\d\d)", re.ASCII)
_LOCALIZED_SHORT = re.compile(r"[+-](\d{1,2})(?::(\d\d)(?::(\d\d))?)?", re.ASCII)
_LOCALIZED_FULL = re.compile(r"[+-](\d\d):(\d\d)(?::(\d\d))?", re.ASCII)
_REGION_RUN = re.compile(r"[A-Za-z0-9/_+~.-]{1,64}")


class Offset(msgspec.Struct, frozen=True):
    """An offset such as `+05:30`; the offset 0 is printed as `zero`.

    `colon` puts a colon before minutes and seconds. `minutes` prints the minutes even if they are 0, and `seconds`
    prints the seconds unless they are 0.
    """

    zero: str
    colon: bool
    minutes: bool
    seconds: bool = False

    def write(self, moment: Moment) -> str | None:
        """Print the offset."""
        offset = moment.get(Field.OFFSET_SECONDS)
        if not offset:
            return None if offset is None else self.zero
        hours, rest = divmod(abs(offset), 3_600)
        minutes, seconds = divmod(rest, 60)
        mark = ":" if self.colon else ""
        text = f"{'-' if offset < 0 else '+'}{hours:02d}"
        shown = hours
        if self.minutes or minutes:
            text, shown = f"{text}{mark}{minutes:02d}", shown + minutes
            if self.seconds and seconds:
                text, shown = f"{text}{mark}{seconds:02d}", shown + seconds
        return text if shown else self.zero

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the offset.

        Raises:
            ValueError: the offset has more than 23 hours.
        """
        if at == len(text):
            return ~at
        if state.starts(text, at, self.zero):
            return state.put(Field.OFFSET_SECONDS, 0, at, at + len(self.zero))
        hours = _HOURS.match(text, at)
        if not hours or int(hours[1]) > 59:
            return ~at
        minutes, end = self._two_digits(text, hours.end())
        seconds = None
        if minutes is None and self.minutes:
            return ~at
        if minutes is not None and self.seconds:
            seconds, end = self._two_digits(text, end)
        if int(hours[1]) > 23:
            raise ValueError("Value out of range: Hour[0-23], Minute[0-59], Second[0-59]")
        total = int(hours[1]) * 3_600 + (minutes or 0) * 60 + (seconds or 0)
        return state.put(Field.OFFSET_SECONDS, -total if text[at] == "-" else total, at, end)

    def _two_digits(self, text: str, at: int) -> tuple[int | None, int]:
        start = at + self.colon
        digits = text[start : start + 2]
        if (
            (self.colon and text[at : at + 1] != ":")
            or len(digits) < 2
            or not (digits.isascii() and digits.isdecimal())
            or digits > "59"
        ):
            return None, at
        return int(digits), start + 2


class LocalizedOffset(msgspec.Struct, frozen=True):
    """An offset such as `GMT+8` or, in full, `GMT+08:00`."""

    full: bool

    def write(self, moment: Moment) -> str | None:
        """Print the offset."""
        offset = moment.get(Field.OFFSET_SECONDS)
        if not offset:
            return None if offset is None else "GMT"
        hours, rest = divmod(abs(offset), 3_600)
        minutes, seconds = divmod(rest, 60)
        text = f"GMT{'-' if offset < 0 else '+'}" + (f"{hours:02d}" if self.full else str(hours))
        if self.full or minutes or seconds:
            text += f":{minutes:02d}"
        return f"{text}:{seconds:02d}" if seconds else text

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the offset."""
        if not state.starts(text, at, "GMT"):
            return ~at
        start = at + 3
        match = (_LOCALIZED_FULL if self.full else _LOCALIZED_SHORT).match(text, start)
        if not match:
            unsigned = text[start : start + 1] not in ("+", "-") or start == len(text)
            return state.put(Field.OFFSET_SECONDS, 0, at, start) if unsigned else ~at
        hours, minutes, seconds = (int(group or 0) for group in match.groups())
        total = hours * 3_600 + minutes * 60 + seconds
        return state.put(Field.OFFSET_SECONDS, -total if text[start] == "-" else total, at, match.end())


_ID_OFFSET = Offset("Z", colon=True, minutes=True, seconds=True)
_SUFFIX_OFFSET = Offset("0", colon=True, minutes=True, seconds=True)


class ZoneId(msgspec.Struct, frozen=True):
    """The id of a zone, such as `Europe/London`, `Z`, `+05:30` or `UTC+01:00`."""

    def write(self, moment: Moment) -> str | None:
        """Print the id, or return None if the moment has no zone."""
        return None if moment.zone is None else moment.zone.id

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the longest matching id."""
        return _read_zone(state, text, at, {})


class ZoneName(msgspec.Struct, frozen=True):
    """The name of a zone, such as `PST` or `Pacific Standard Time`; state accepts ids too."""

    full: bool

    def write(self, moment: Moment) -> str | None:
        """Print the name."""
        if moment.zone is None:
            return None
        second = (moment.days or 0) * _DAY_SECONDS + (moment.nanos or 0) // SECOND_NANOS - (moment.offset or 0)
        return zone_name(moment.zone, second, full=self.full)

    def read(self, state: ParseState, text: str, at: int) -> int:
        """Parse the longest matching name or id."""
        return _read_zone(state, text, at, _names(self.full))


@lru_cache(maxsize=2)
def _names(full: bool) -> dict[str, Zone]:
    return zone_names(full=full)


def _read_zone(state: ParseState, text: str, at: int, names: dict[str, Zone]) -> int:
    if at >= len(text):
        return ~at
    if text[at] in "+-":
        return _read_prefixed(state, text, at, "")
    for prefix in ("UTC", "UT", "GMT"):
        if state.starts(text, at, prefix):
            if prefix == "GMT" and text[at + 3 : at + 4] == "0":
                state.zone = zone_of("GMT0")
                return at + 4
            return _read_prefixed(state, text, at, prefix)
    zone, end = _longest(state, text, at, names)
    if zone is None:
        if not state.starts(text, at, "Z"):
            return ~at
        zone, end = UTC, at + 1
    state.zone = zone
    return end


def _read_prefixed(state: ParseState, text: str, at: int, prefix: str) -> int:
    start = at + len(prefix)
    offset = 0
    if prefix and (start == len(text) or text[start] in "0Zz"):
        state.zone = prefixed_zone(prefix, 0)
        return start
    inner = ParseState(state.ignore_case, state.root)
    end = (_SUFFIX_OFFSET if prefix else _ID_OFFSET).read(inner, text, start)
    if end < 0:
        if not prefix:
            return ~at
        end = start
    else:
        offset = inner.fields[Field.OFFSET_SECONDS]
    state.zone = prefixed_zone(prefix, offset) if prefix else fixed_zone(offset)
    return end


def _longest(state: ParseState, text: str, at: int, names: dict[str, Zone]) -> tuple[Zone | None, int]:
    named = max((name for name in names if state.starts(text, at, name)), key=len, default="")
    run = _REGION_RUN.match(text, at)
    for end in range(run.end() if run else at, at + len(named), -1):
        region = region_ids().get(text[at:end].lower())
        if region is not None and (state.ignore_case or region == text[at:end]):
            return zone_of(region), end
    return (names[named], at + len(named)) if named else (None, at)
