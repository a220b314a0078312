"""The fast path for fixed-width patterns agrees with the general implementation."""

from __future__ import annotations

import itertools
import random

import pytest

from kestrel_sql.functions.library.time import dates
from kestrel_sql.java.time import text as java_time
from kestrel_sql.java.time.fixed_width import layout_of
from kestrel_sql.java.time.zones import zone_of

PATTERNS = (
    *("yyyy-MM-dd", "dd.MM.yyyy", "MM/dd/yyyy", "yyyyMMdd", "'on' yyyy-MM-dd", "yyyy MM dd"),
    *("HH", "HH:mm", "HH:mm:ss", "HHmmss", "HH:mm:ss.SSS", "HHmmssSSS", "mm HH"),
    *(
        "yyyy-MM-dd HH",
        "yyyy-MM-dd HH:mm",
        "yyyy-MM-dd'T'HH:mm:ss",
        "yyyy-MM-dd'T'HH:mm:ss.SSS",
        "yyyyMMddHHmmss",
        "HH:mm:ss dd.MM.yyyy",
    ),
    *("yyyyMMddHHmmssSSS", "SSS ss mm HH dd MM yyyy"),
)
OTHER_PATTERNS = (
    "yyyy-MM",
    "yy-MM-dd",
    "yyyy-MM-dd hh",
    "yyyy-MM-dd ss",
    "yyyy-MM-dd yyyy",
    "yyyy-M-d",
    "HH:mm X",
    "[yyyy-MM-dd]",
    "yyyy''MM-dd",
    "uuuu-MM-dd",
    "''",
    "",
)
ZONES = ("UTC", "GMT", "+05:30", "-03", "Europe/London")
_RANDOM = random.Random(11)
INSTANTS = (
    *(0, -1, 951_782_400_000, -62_135_596_800_000, -62_135_596_800_001, 253_402_300_799_999, 253_402_300_800_000),
    *(_RANDOM.randrange(-62_200_000_000_000, 253_500_000_000_000) for _ in range(8)),
    *(_RANDOM.randrange(0, 2_000_000_000_000) for _ in range(8)),
)
MORE_INSTANTS = tuple(_RANDOM.randrange(-62_200_000_000_000, 253_500_000_000_000) for _ in range(120))
INSTANT_SETS = [pytest.param(INSTANTS, id="few"), pytest.param(MORE_INSTANTS, id="more", marks=pytest.mark.nightly)]


def outcome(function, *arguments):
    """Return the result of a call, or "error"."""
    try:
        return function(*arguments)
    except (ValueError, ArithmeticError):
        return "error"


def both_outcomes(monkeypatch, function, *arguments):
    """Return the outcomes with and without the fast path."""
    fast = outcome(function, *arguments)
    with monkeypatch.context() as patched:
        patched.setattr(java_time, "layout_of", lambda _: None)
        patched.setattr(dates, "layout_of", lambda _: None)
        return fast, outcome(function, *arguments)


def variants(text):
    """Yield a text and texts that resemble it."""
    yield text
    yield from (text + "0", text[:-1], text.replace("0", "9"), text.replace("-", "/"))
    yield from (text.lower(), " " + text, text.replace("1", "\u0661"))
    at = _RANDOM.randrange(len(text))
    yield text[:at] + str(_RANDOM.randrange(10)) + text[at + 1 :]


@pytest.mark.parametrize("instants", INSTANT_SETS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_fast_path_and_general_implementation_agree(monkeypatch, pattern, instants):
    for millis, zone in itertools.product(instants, ZONES):
        fast, slow = both_outcomes(monkeypatch, java_time.format_instant, millis, pattern, zone_of(zone))
        assert fast == slow, (millis, zone)
        for text in variants(fast):
            fast, slow = both_outcomes(monkeypatch, java_time.parse_instant, text, pattern, zone_of(zone))
            assert fast == slow, (text, zone)
    for millis in instants:
        days, of_day = divmod(millis, 86_400_000)
        for function, value in ((java_time.format_date, days), (java_time.format_time, of_day)):
            fast, slow = both_outcomes(monkeypatch, function, value, pattern)
            assert fast == slow, (function, value)
            for text, read in itertools.product(
                variants(fast), (java_time.parse_date, java_time.parse_time, dates.parse_date.body)
            ):
                fast, slow = both_outcomes(monkeypatch, read, text, pattern)
                assert fast == slow, (read, text)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_fixed_width_patterns_have_a_layout(pattern):
    assert layout_of(pattern) is not None


@pytest.mark.parametrize("pattern", OTHER_PATTERNS)
def test_other_patterns_have_no_layout(pattern):
    assert layout_of(pattern) is None
