from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kestrel_sql.errors import PlanError
from kestrel_sql.plan.codec.durations import DURATION, TIME_SPAN
from kestrel_sql.sql.nodes.statements import TimeSpan


@pytest.mark.parametrize(
    ("value", "millis"),
    [
        (11, 11_000),
        (Decimal("0.002000000"), 2),
        (Decimal("0.0029"), 2),
        ("PT11S", 11_000),
        ("PT0.5S", 500),
        ("P1DT2H3M4.005S", 93_784_005),
        ("pt1m", 60_000),
        (Decimal("9223372036854775.807"), None),
        (Decimal(9223372036854775), 9_223_372_036_854_775_000),
    ],
)
def test_durations(value: Any, millis: int | None) -> None:
    if millis is None:
        with pytest.raises(PlanError):
            DURATION.decode(value, "$")
    else:
        assert DURATION.decode(value, "$") == millis


@pytest.mark.parametrize(
    "value",
    ["", "P", "PT", "P1DT", "11", "PT1.S", "PT1S ", "PT-1S", "PT" + "9" * 30 + "S", "PT\u0661S", True, None, [], -1],
)
def test_an_invalid_duration_is_refused(value: Any) -> None:
    with pytest.raises(PlanError):
        DURATION.decode(value, "$")


@pytest.mark.parametrize("millis", [0, 1, 1500, 2**53 + 1, 2**62])
def test_durations_are_written_exactly(millis: int) -> None:
    assert DURATION.decode(DURATION.encode(millis), "$") == millis
    assert str(DURATION.encode(1500)) == "1.500000000"


@pytest.mark.parametrize(
    "value",
    [{}, {"value": 1}, *({"value": n, "timeUnit": unit} for n, unit in [(1, "YEARS"), (2**62, "DAYS"), (1.5, "DAYS")])],
)
def test_an_invalid_time_span_is_refused(value: Any) -> None:
    with pytest.raises(PlanError):
        TIME_SPAN.decode(value, "$")


def test_a_time_span_keeps_its_unit() -> None:
    assert TIME_SPAN.decode({"value": 2, "timeUnit": "HOURS"}, "$") == TimeSpan(2, "HOURS")
