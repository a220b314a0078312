from __future__ import annotations

import pytest

from kestrel_sql.functions.declaration import Body, Nulls, Scalar
from kestrel_sql.functions.library.time import dates, times, timestamps
from kestrel_sql.functions.table import FUNCTIONS

NAMES = (
    "CONVERT_TZ DATEADD DATESUB DATETOSTRING FORMAT_DATE FORMAT_TIME FORMAT_TIMESTAMP FROM_DAYS "
    "FROM_UNIXTIME PARSE_DATE PARSE_TIME "
    "PARSE_TIMESTAMP STRINGTODATE STRINGTOTIMESTAMP TIMEADD TIMESTAMPADD TIMESTAMPSUB TIMESTAMPTOSTRING "
    "TIMESUB UNIX_DATE UNIX_TIMESTAMP"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_display_names_are_lower_case(name: str) -> None:
    assert {overload.function.display_name for overload in FUNCTIONS.get(name)} == {name.lower()}


def test_the_unit_scales_the_interval() -> None:
    assert timestamps.timestampadd.body("HOURS", -2, 1) == 1 - 2 * 3_600_000


@pytest.mark.rules("U6.1")
def test_functions_of_the_current_time_are_not_deterministic() -> None:
    assert not dates.unix_date_today.deterministic
    assert not timestamps.unix_timestamp_now.deterministic


def test_convert_tz_uses_the_offsets_at_the_instant() -> None:
    assert timestamps.convert_tz.body(1_589_234_313_000, "+0200", "+0500") == 1_589_245_113_000
    assert timestamps.convert_tz.body(0, "UTC", "Europe/London") == 3_600_000
    with pytest.raises(ValueError, match="zone"):
        timestamps.convert_tz.body(0, "UTC", "Nowhere")


def test_default_zones_are_utc() -> None:
    assert timestamps.format_timestamp.body(0, "HH:mm z") == "00:00 GMT"
    assert timestamps.timestamptostring.body(0, "HH:mm z") == "00:00 UTC"
    assert timestamps.stringtotimestamp.body("1970", "yyyy") == 0


@pytest.mark.parametrize("function", [dates.stringtodate, timestamps.stringtotimestamp])
def test_deprecated_parsers_reject_null(function: Scalar) -> None:
    assert function.nulls is Nulls.BODY
    with pytest.raises(ValueError, match="NULL"):
        function.body(None, "yyyy")


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        (dates.stringtodate.body, ("+999999999-01-01", "yyyy-MM-dd")),
        (dates.parse_date.body, ("99999999", "yyyy")),
        (timestamps.parse_timestamp.body, ("+999999999", "yyyy")),
    ],
)
def test_results_out_of_range_are_errors(body: Body, arguments: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="overflow"):
        body(*arguments)


def test_time_patterns() -> None:
    assert times.format_time.body(86_399_999, "HH:mm:ss.SSS") == "23:59:59.999"
    assert times.parse_time.body("00:01:05Lit", "HH:mm:ss'Lit'") == 65_000
