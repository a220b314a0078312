"""The English names of time zones, for the pattern letter z."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from kestrel_sql.java.time.zones import Zone, zone_of


@cache
def _table(kind: str) -> Mapping[str, str]:
    """The lines of a kind in `zone_names.txt`, by their second word."""
    text = files(__package__).joinpath("zone_names.txt").read_text(encoding="utf-8")
    lines = (line.split(" ", 2) for line in text.splitlines() if not line.startswith("#"))
    return {key: names for own, key, names in lines if own == kind}


_WINTER, _SUMMER = 1_705_276_800, 1_721_001_600


def zone_name(zone: Zone, second: int, *, full: bool) -> str:
    """Return the short or full English name of a zone at an instant (seconds since the epoch).

    A zone without a name is written as its id or as an offset such as `GMT-03:00`.
    """
    if zone.is_offset:
        return zone.id
    if zone.id in _table("unnamed"):
        return _table("unnamed")[zone.id].split(" ", 1)[full]
    short = zone.abbreviation_at(second)
    offset = zone.offset_at(second)
    if short == "LMT":
        standard = min(_WINTER, _SUMMER, key=zone.offset_at)
        short, offset = zone.abbreviation_at(standard), zone.offset_at(standard)
    if short[:1] in "+-":
        return "GMT" + (_clock(offset) if offset else "")
    return _table("long").get(f"{short}/{offset // 60}", short) if full else short


def _clock(offset: int) -> str:
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def zone_names(*, full: bool) -> dict[str, Zone]:
    """Return the zones that have a short or full name, by the name in lower case."""
    short = {name.lower(): zone_of(region) for region, names in _table("short").items() for name in names.split()}
    if not full:
        return short
    by_name = {
        "greenwich mean time": zone_of("GMT"),
        "coordinated universal time": zone_of("UTC"),
        "british summer time": zone_of("Africa/Abidjan"),
    }
    for key, long in _table("long").items():
        name, _, minutes = key.partition("/")
        zone = short.get(name.lower())
        if zone is not None and int(minutes) * 60 in (zone.offset_at(_WINTER), zone.offset_at(_SUMMER)):
            by_name[long.lower()] = zone
    return by_name
