"""Expected values come from a JVM (17, English, UTC), except for the limit of nested brackets, which is ours."""

from __future__ import annotations

import pytest

from kestrel_sql.java.time import text as java_time
from kestrel_sql.java.time.pattern import compile_pattern
from kestrel_sql.java.time.simple_date_format import parse_simple_date
from kestrel_sql.java.time.zones import UTC, zone_of

MAY_11 = 1_526_075_913_042


@pytest.mark.parametrize(
    ("pattern", "zone", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "UTC", "2018-05-11T21:58:33.042Z"),
        ("yy M d h:m:s a", "UTC", "18 5 11 9:58:33 PM"),
        ("G GGGG GGGGG u", "UTC", "AD Anno Domini A 2018"),
        ("MMM MMMM MMMMM LLL LLLL", "UTC", "May May M May May"),
        ("E EEEE EEEEE e ee eee c", "UTC", "Fri Friday F 6 06 Fri 6"),
        ("D DDD Q QQ QQQ QQQQ w ww W Y", "UTC", "131 131 2 02 Q2 2nd quarter 19 19 2 2018"),
        ("H k K hh A n N", "UTC", "21 21 9 09 79113042 42000000 79113042000000"),
        ("S SS SSSSSS", "UTC", "0 04 042000"),
        ("X XX XXX XXXX XXXXX", "Asia/Kolkata", "+0530 +0530 +05:30 +0530 +05:30"),
        ("x xx xxx", "UTC", "+00 +0000 +00:00"),
        ("Z ZZZZ ZZZZZ", "Asia/Kolkata", "+0530 GMT+05:30 +05:30"),
        ("O OOOO VV", "Asia/Kolkata", "GMT+5:30 GMT+05:30 Asia/Kolkata"),
        ("z zzzz", "America/Los_Angeles", "PDT Pacific Daylight Time"),
        ("z zzzz", "Europe/London", "BST British Summer Time"),
        ("z zzzz VV", "+02:00", "+02:00 +02:00 +02:00"),
        ("yyyy''MM'it''s'[ HH]", "UTC", "2018'05it's 21"),
    ],
)
def test_format_instant(pattern: str, zone: str, text: str) -> None:
    assert java_time.format_instant(MAY_11, pattern, zone_of(zone)) == text


@pytest.mark.parametrize(
    ("days", "pattern", "text"),
    [
        (-1, "dd-MM-yyyy'Sophia'", "31-12-1969Sophia"),
        (-719_529, "yyyy G uuuu", "0002 BC -0001"),
        (2_932_897, "yyyy-MM-dd uuu", "+10000-01-01 10000"),
        (19_721, "YYYY-ww-e", "2023-52-7"),
        (19_723, "YYYY-ww-e", "2024-01-2"),
        (0, "dd[ HH]", "01"),
    ],
)
def test_format_date(days: int, pattern: str, text: str) -> None:
    assert java_time.format_date(days, pattern) == text


@pytest.mark.parametrize("pattern", ["HH", "X", "VV", "dd HH"])
def test_a_date_has_no_time_fields(pattern: str) -> None:
    with pytest.raises(ValueError, match="Unsupported field"):
        java_time.format_date(0, pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "b",
        "ddd",
        "SSSSSSSSSS",
        "aa",
        "V",
        "OO",
        "ZZZZZZ",
        "XXXXXX",
        "'open",
        "]",
        "{",
        "}",
        "#",
        "MMMMMM",
        "y" * 20,
        "cc",
        "ww" * 2,
        "[" * 200,
    ],
)
def test_invalid_patterns(pattern: str) -> None:
    with pytest.raises(ValueError, match="attern"):
        compile_pattern(pattern)


@pytest.mark.rules("U4.1", "L11.5")
@pytest.mark.parametrize(
    ("text", "pattern", "millis"),
    [
        ("2018-05-11T21:58:33Z", "yyyy-MM-dd'T'HH:mm:ssX", 1_526_075_913_000),
        ("2018-05-11t21:58:33z", "yyyy-MM-dd'T'HH:mm:ssX", 1_526_075_913_000),
        ("10-04-19 12:00:17Z", "yy-MM-dd HH:mm:ssX", 1_271_678_417_000),
        ("20180511215833042", "yyyyMMddHHmmssSSS", 1_526_075_913_042),
        ("2018-05-11 24:00", "yyyy-MM-dd HH:mm", 1_526_083_200_000),
        ("2018-02-31", "yyyy-MM-dd", 1_519_776_000_000),
        ("2018-05", "yyyy-MM", 1_525_132_800_000),
        ("02-29", "MM-dd", 5_011_200_000),
        ("11:30", "HH:mm", 41_400_000),
        ("33.5", "ss.S", 33_500),
        ("PM", "a", 64_800_000),
        ("2020-366", "yyyy-DDD", 1_609_372_800_000),
        ("Fri", "EEE", 86_400_000),
        ("11 may 2018 pst", "d MMM yyyy z", 1_526_022_000_000),
        ("2018-05-11 Europe/Paris", "yyyy-MM-dd VV", 1_525_989_600_000),
        ("2018-05-11 UTC+02:00", "yyyy-MM-dd VV", 1_525_989_600_000),
        ("2018-05-11 GMT+2", "yyyy-MM-dd O", 1_525_989_600_000),
        ("2018-05-11 10", "yyyy-MM-dd[ HH[:mm]]", 1_526_032_800_000),
        ("2018-19-6", "YYYY-ww-e", 1_525_996_800_000),
    ],
)
def test_parse_instant(text: str, pattern: str, millis: int) -> None:
    assert java_time.parse_instant(text, pattern, UTC) == millis


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("2018-05-11", "yyyy-MM-dd HH"),
        ("2018-05-11 1", "yyyy-MM-dd"),
        ("2018-5-11", "yyyy-MM-dd"),
        ("2018-13-11", "yyyy-MM-dd"),
        ("20181-05-11", "yyyy-MM-dd"),
        ("Mon 2018-05-11", "EEE yyyy-MM-dd"),
        ("25:00", "HH:mm"),
        ("2018-05-11 +25", "yyyy-MM-dd X"),
        ("366", "DDD"),
        ("2018-05-11 Nowhere/Here", "yyyy-MM-dd VV"),
        ("January 5", "MMMM d"),
        ("", "yyyy"),
    ],
)
def test_parse_instant_fails(text: str, pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        java_time.parse_instant(text, pattern, UTC)


def test_missing_fields_come_from_1970_in_the_zone() -> None:
    assert java_time.parse_instant("11:30", "HH:mm", zone_of("Asia/Tokyo")) == 41_400_000 - 9 * 3_600_000
    assert java_time.parse_instant("2018-05-11", "yyyy-MM-dd", zone_of("America/Los_Angeles")) == 1_526_022_000_000


@pytest.mark.parametrize("name", ["+\uff11:00", "+0\uff11", "UTC+\uff11"])
def test_offsets_have_ascii_digits(name):
    with pytest.raises(ValueError, match="Zone"):
        zone_of(name)


def test_gap_and_overlap() -> None:
    zone = zone_of("America/New_York")
    assert java_time.parse_instant("2024-03-10 02:30", "yyyy-MM-dd HH:mm", zone) == 1_710_055_800_000
    assert java_time.parse_instant("2024-11-03 01:30", "yyyy-MM-dd HH:mm", zone) == 1_730_611_800_000


def test_times_and_dates() -> None:
    assert java_time.parse_time("01:00:00 Pm", "hh:mm:ss a") == 46_800_000
    assert java_time.parse_time("11/05/19", "HH/mm/ss") == 39_919_000
    assert java_time.parse_date("01-JAN-2022", "dd-MMM-yyyy") == 18_993
    assert java_time.parse_date("January 5 2018", "MMMM d yyyy") == 17_536
    with pytest.raises(ValueError, match="date field"):
        java_time.parse_time("11 05", "HH dd")
    with pytest.raises(ValueError, match="LocalTime"):
        java_time.parse_time("05", "mm")
    with pytest.raises(ValueError, match="LocalDate"):
        java_time.parse_date("2018-05", "yyyy-MM")


@pytest.mark.parametrize(
    ("name", "identifier", "offset"),
    [
        ("Z", "Z", 0),
        ("+2", "+02:00", 7_200),
        ("-0230", "-02:30", -9_000),
        ("+05:30:15", "+05:30:15", 19_815),
        ("UTC", "UTC", 0),
        ("GMT+0530", "GMT+05:30", 19_800),
        ("Asia/Kolkata", "Asia/Kolkata", 19_800),
    ],
)
def test_zones(name: str, identifier: str, offset: int) -> None:
    zone = zone_of(name)
    assert (zone.id, zone.offset_at(MAY_11 // 1000)) == (identifier, offset)


@pytest.mark.parametrize(
    "name", ["", "z", "EST", "+19", "+1:00", "asia/kolkata", "../etc/passwd", "posix/UTC", "UTC+x", "Nowhere"]
)
def test_unknown_zones(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        zone_of(name)


def test_zone_rules_repeat_beyond_the_years_of_datetime() -> None:
    zone = zone_of("Europe/London")
    july = java_time.parse_instant("+12018-07-01 00:00", "yyyy-MM-dd HH:mm", UTC) // 1000
    assert zone.offset_at(july) == 3_600
    assert zone.offset_at(-(10**12)) == zone.offset_at(-(10**11))


@pytest.mark.parametrize(
    ("text", "pattern", "days"),
    [
        ("2018-05-11", "yyyy-MM-dd", 17_662),
        ("20180511", "yyyyMMdd", 17_662),
        ("11 MAY 2018 and more", "dd MMM yyyy", 17_662),
        ("11-June-2018", "dd-MMM-yyyy", 17_693),
        ("70-1-1", "yy-M-d", 0),
        ("2018-14-01", "yyyy-MM-dd", 17_928),
        ("2018-02-30", "yyyy-MM-dd", 17_592),
        ("2018-05-11 24", "yyyy-MM-dd HH", 17_663),
        ("2018-05-11 12 AM", "yyyy-MM-dd hh a", 17_662),
        ("2018-05-11 02 +0200", "yyyy-MM-dd HH Z", 17_662),
        ("2018 131", "yyyy DDD", 17_662),
        ("1582-10-04", "yyyy-MM-dd", -141_428),
        ("0001-01-01", "yyyy-MM-dd", -719_164),
    ],
)
def test_simple_dates(text: str, pattern: str, days: int) -> None:
    assert parse_simple_date(text, pattern) == days


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("2018-05-11 10", "yyyy-MM-dd HH"),
        ("x", "yyyy"),
        ("9" * 5000, "yyyy"),
        ("2018", "yyyy'"),
        ("1", "B"),
        ("1", "XXXX"),
        ("2018/05", "yyyy-MM"),
    ],
)
def test_simple_dates_fail(text: str, pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_simple_date(text, pattern)


@pytest.mark.rules("L11.5")
@pytest.mark.parametrize(
    ("day", "offset"),
    [
        ("1973-04-28", -5),
        ("1973-04-29", -4),
        ("1974-01-06", -4),
        ("1974-11-24", -5),
        ("1975-02-23", -4),
        ("2025-03-20", -5),
        ("2025-07-01", -4),
        ("2025-11-02", -5),
    ],
)
def test_names_of_america_keep_the_daylight_saving_of_system_v(day: str, offset: int) -> None:
    noon = java_time.parse_instant(f"{day} 12:00Z", "yyyy-MM-dd HH:mmX", UTC)
    assert java_time.parse_instant(f"{day} 12:00 EST", "yyyy-MM-dd HH:mm z", UTC) == noon - offset * 3_600_000
