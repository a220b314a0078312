from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kestrel_qtt.judge.compare import ABSENT, Difference, differences

D = Decimal


@pytest.mark.rules("Q8.2")
@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (None, None),
        (True, True),
        (1, 1),
        (D("1.5"), 1),  # truncated to an integer, as upstream does
        (1, 1.0000001),
        (D("0.3"), 0.1 + 0.2),
        (D("1.7976931348623157E308"), 1.7976931348623157e308),
        (D("1.50"), D("1.50")),
        (D("-0.0"), D("0.0")),
        (100, D("1E+2")),
        ("1.50", D("1.50")),
        ("a", "a"),
        ("YWI=", b"ab"),
        ([1, "a"], (1, "a")),
        ({"a": 1}, {"A": 1}),
        ({"a": 1, "b": None}, {"A": 1, "B": None}),
        ({"A": "YWI="}, {"A": b"ab"}),
        ({"A": None}, {"A": b""}),
        ({"A": [{"x": D("1.0")}]}, {"A": [{"x": D("1.0")}]}),
    ],
)
def test_equal(expected: Any, actual: Any) -> None:
    assert differences(expected, actual, "value") == []


@pytest.mark.rules("Q8.2")
@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (None, 0),
        (None, ""),
        (True, 1),
        (1, True),
        (False, None),
        (1, "1"),
        ("1", 1),
        (1, 2),
        (1, 1.00001),
        (1, float("nan")),
        (10**400, 1.0),
        (1, D("1.0")),
        (D("1.5"), D("1.50")),
        (D("1.0"), D("1")),
        (D("1.0E10"), D("10000000000.0")),
        (D("4.6116860184273879E18"), D("4.611686018427388E18")),
        (D("0.12345678901234567"), D("0.1234567890123457")),
        ("1.5", D("1.50")),
        ("abc", D("1")),
        ("NaN", D("NaN")),
        ("ab", b"ab"),
        (2**63, 2**63),
        (2**63, D(2**63)),
        ("a", "A"),
        ("a", None),
        ([1], [1, 2]),
        ([1, 2], [1]),
        ([1], "1"),
        ([], None),
        ({}, None),
        ({}, []),
        ({"a": 1}, [1]),
        ({"A": 1}, {"a": 1}),  # only the upper-cased name is tried
        ({"A": 1}, {"A": 1, "B": None}),
        ({"A": 1, "B": None}, {"A": 1}),
        ({"a": 1, "A": 1}, {"A": 1}),
        ({"A": {"B": 1}}, {"A": {"B": "1"}}),
        ({"A": {"B": None}}, {"A": {"B": b""}}),  # only the top level turns empty bytes into null
    ],
)
def test_different(expected: Any, actual: Any) -> None:
    assert differences(expected, actual, "value")


@pytest.mark.rules("Q8.4")
def test_difference_names_the_column() -> None:
    assert differences({"A": [1, {"B": 2}]}, {"A": [1, {"B": 3}]}, "value") == [Difference("value.A[1].B", 2, 3)]


def test_absent_columns_are_named_on_both_sides() -> None:
    found = differences({"A": 1, "B": 2}, {"A": 1, "C": 3, "D": 4}, "value")
    assert Difference("value.B", 2, ABSENT) in found
    assert Difference("value.C", ABSENT, 3) in found


@pytest.mark.rules("Q8.3")
def test_inexact_comparison_reads_fractions_as_doubles() -> None:
    assert differences(D("1.5"), D("1.50"), "value", exact=False) == []
    assert differences(1, D("1.0"), "value", exact=False) == []
    assert differences(D("1.5"), D("1.51"), "value", exact=False)
