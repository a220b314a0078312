"""Timestamp strings that are compared with ROWTIME and window bounds."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import StatementError
from kestrel_sql.planner.expressions.timestamp_literals import parse_partial_timestamp, rewrite_timestamps
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.parse.parser import parse_expression

DAY = 86_400_000


@pytest.mark.rules("L11.2", "L11.3")
@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970", 0),
        ("1970-01-02", DAY),
        ("1970-01-01T01", 3_600_000),
        ("1970-01-01T00:00:01.5", 1_500),
        ("1970-01-01T24:00:00.000", DAY),
        ("1969-02-31", -307 * DAY),
        ("1970-01-02T00:00:00.000+0130", DAY - 5_400_000),
        ("1970-01-01T00:00:00.000-01:00", 3_600_000),
        ("1970-01-01T00:00:00.001Z", 1),
    ],
)
def test_missing_parts_take_their_smallest_value(text: str, millis: int) -> None:
    assert parse_partial_timestamp(text) == millis


@pytest.mark.rules("L11.4")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1970-13",
        "1970-01-32",
        "1970-01T00",
        "1970-01-01T25",
        "1970-01-01 00:00",
        "\uff11\uff19\uff17\uff10",
        "0000",
        "1970-01-01T24:01",
        "1970-01-01T00:60",
        "1970\n",
        "1970-01-01T00+99:99",
    ],
)
def test_an_invalid_timestamp_is_refused_with_the_expected_format(text: str) -> None:
    with pytest.raises(StatementError, match="Required format"):
        parse_partial_timestamp(text)


@pytest.mark.rules("L11.1")
@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("ROWTIME > '1970-01-02'", "(ROWTIME > 86400000)"),
        ("'1970-01-02' = WINDOWSTART", "(86400000 = WINDOWSTART)"),
        ("WINDOWEND BETWEEN '1970' AND 5", "(WINDOWEND BETWEEN 0 AND 5)"),
        ("OTHER > '1970-01-02'", "(OTHER > '1970-01-02')"),
    ],
)
def test_only_strings_compared_with_times_are_rewritten(text: str, rewritten: str) -> None:
    assert format_expression(rewrite_timestamps(parse_expression(text))) == rewritten
