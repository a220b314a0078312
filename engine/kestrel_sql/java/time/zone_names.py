"""The English names of time zones, for the pattern letter z."""

from __future__ import annotations

from kestrel_sql.java.time.zones import Zone, zone_of

_LONG = {
    ("PST", -480): "Pacific Standard Time",
    ("PDT", -420): "Pacific Daylight Time",
    ("MST", -420): "Mountain Standard Time",
    ("MDT", -360): "Mountain Daylight Time",
    ("CST", -360): "Central Standard Time",
    ("CDT", -300): "Central Daylight Time",
    ("EST", -300): "Eastern Standard Time",
    ("EDT", -240): "Eastern Daylight Time",
    ("AST", -240): "Atlantic Standard Time",
    ("ADT", -180): "Atlantic Daylight Time",
    ("NST", -210): "Newfoundland Standard Time",
    ("NDT", -150): "Newfoundland Daylight Time",
    ("AKST", -540): "Alaska Standard Time",
    ("AKDT", -480): "Alaska Daylight Time",
    ("HST", -600): "Hawaii-Aleutian Standard Time",
    ("GMT", 0): "Greenwich Mean Time",
    ("UTC", 0): "Coordinated Universal Time",
    ("BST", 60): "British Summer Time",
    ("IST", 60): "Irish Standard Time",
    ("WET", 0): "Western European Standard Time",
    ("WEST", 60): "Western European Summer Time",
    ("CET", 60): "Central European Standard Time",
    ("CEST", 120): "Central European Summer Time",
    ("EET", 120): "Eastern European Standard Time",
    ("EEST", 180): "Eastern European Summer Time",
    ("MSK", 180): "Moscow Standard Time",
    ("WAT", 60): "West Africa Standard Time",
    ("CAT", 120): "Central Africa Time",
    ("EAT", 180): "East Africa Time",
    ("SAST", 120): "South Africa Standard Time",
    ("IST", 120): "Israel Standard Time",
    ("IDT", 180): "Israel Daylight Time",
    ("IST", 330): "India Standard Time",
    ("PKT", 300): "Pakistan Standard Time",
    ("CST", 480): "China Standard Time",
    ("HKT", 480): "Hong Kong Standard Time",
    ("JST", 540): "Japan Standard Time",
    ("KST", 540): "Korean Standard Time",
    ("WIB", 420): "Western Indonesia Time",
    ("WITA", 480): "Central Indonesia Time",
    ("WIT", 540): "Eastern Indonesia Time",
    ("AWST", 480): "Australian Western Standard Time",
    ("ACST", 570): "Australian Central Standard Time",
    ("ACDT", 630): "Australian Central Daylight Time",
    ("AEST", 600): "Australian Eastern Standard Time",
    ("AEDT", 660): "Australian Eastern Daylight Time",
    ("NZST", 720): "New Zealand Standard Time",
    ("NZDT", 780): "New Zealand Daylight Time",
}
_WITHOUT_ABBREVIATION = {
    "America/Sao_Paulo": ("BRT", "Brasilia Standard Time"),
    "America/Argentina/Buenos_Aires": ("ART", "Argentina Standard Time"),
    "America/Buenos_Aires": ("ART", "Argentina Standard Time"),
    "America/Bogota": ("COT", "Colombia Standard Time"),
    "America/Lima": ("PET", "Peru Standard Time"),
    "America/Caracas": ("VET", "Venezuela Time"),
    "Asia/Bangkok": ("ICT", "Indochina Time"),
    "Asia/Dhaka": ("BDT", "Bangladesh Standard Time"),
    "Asia/Dubai": ("GST", "Gulf Standard Time"),
    "Asia/Ho_Chi_Minh": ("ICT", "Indochina Time"),
    "Asia/Kabul": ("AFT", "Afghanistan Time"),
    "Asia/Kathmandu": ("NPT", "Nepal Time"),
    "Asia/Kuala_Lumpur": ("MYT", "Malaysia Time"),
    "Asia/Riyadh": ("AST", "Arabian Standard Time"),
    "Asia/Singapore": ("SGT", "Singapore Standard Time"),
    "Asia/Tashkent": ("UZT", "Uzbekistan Standard Time"),
}
"""Zones for which the zone database no longer has an abbreviation: short and full name."""

_REGIONS = {
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "MST": "America/Denver",
    "MDT": "America/Denver",
    "CST": "America/Chicago",
    "CDT": "America/Chicago",
    "EST": "America/New_York",
    "EDT": "America/New_York",
    "AST": "America/Halifax",
    "ADT": "America/Halifax",
    "AKST": "America/Anchorage",
    "AKDT": "America/Anchorage",
    "HST": "Pacific/Honolulu",
    "BST": "Europe/London",
    "WET": "Atlantic/Canary",
    "WEST": "Atlantic/Canary",
    "CET": "Europe/Paris",
    "CEST": "Europe/Paris",
    "EET": "Europe/Bucharest",
    "EEST": "Europe/Bucharest",
    "MSK": "Europe/Moscow",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "HKT": "Asia/Hong_Kong",
    "SGT": "Asia/Singapore",
    "AWST": "Australia/Perth",
    "ACST": "Australia/Adelaide",
    "ACDT": "Australia/Adelaide",
    "AEST": "Australia/Sydney",
    "AEDT": "Australia/Sydney",
    "NZST": "Pacific/Auckland",
    "NZDT": "Pacific/Auckland",
}


_WINTER, _SUMMER = 1_705_276_800, 1_721_001_600


def zone_name(zone: Zone, second: int, *, full: bool) -> str:
    """Return the short or full English name of a zone at an instant (seconds since the epoch).

    A zone without a name is written as its id or as an offset such as `GMT-03:00`.
    """
    if zone.is_offset:
        return zone.id
    if zone.id in _WITHOUT_ABBREVIATION:
        return _WITHOUT_ABBREVIATION[zone.id][full]
    short = zone.abbreviation_at(second)
    offset = zone.offset_at(second)
    if short == "LMT":
        standard = min(_WINTER, _SUMMER, key=zone.offset_at)
        short, offset = zone.abbreviation_at(standard), zone.offset_at(standard)
    if short[:1] in "+-":
        return "GMT" + (_clock(offset) if offset else "")
    return _LONG.get((short, offset // 60), short) if full else short


def _clock(offset: int) -> str:
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def zone_names(*, full: bool) -> dict[str, Zone]:
    """Return the zones that have a short or full name, by the name in lower case."""
    by_abbreviation = {short: region for region, (short, _) in _WITHOUT_ABBREVIATION.items()}
    short = {name.lower(): zone_of(region) for name, region in {**by_abbreviation, **_REGIONS}.items()}
    if not full:
        return short
    by_name = {"greenwich mean time": zone_of("GMT"), "coordinated universal time": zone_of("UTC")}
    for (name, minutes), long in _LONG.items():
        zone = short.get(name.lower())
        if zone is not None and minutes * 60 in (zone.offset_at(_WINTER), zone.offset_at(_SUMMER)):
            by_name[long.lower()] = zone
    return by_name
