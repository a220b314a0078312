from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest

from kestrel_qtt.cases.model import Matching
from kestrel_qtt.judge.compare import ABSENT, Difference, Rules, differences, is_same

D = Decimal
EXACTLY = Rules()


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
        ({"a": None, "A": 1}, {"A": 1, "a": None}),
        ({"A": "YWI="}, {"A": b"ab"}),
        ({"A": None}, {"A": b""}),
        ({"A": [{"x": D("1.0")}]}, {"A": [{"x": D("1.0")}]}),
    ],
)
def test_equal(expected: Any, actual: Any) -> None:
    assert is_same(expected, actual)


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
        ({"a": 1, "A": 1}, {"a": None, "A": 1}),
        ({"a": 1, "A": 1}, {"A": 1}),
        ({"A": {"B": 1}}, {"A": {"B": "1"}}),
        ({"A": {"B": None}}, {"A": {"B": b""}}),  # only the top level turns empty bytes into null
    ],
)
def test_different(expected: Any, actual: Any) -> None:
    assert not is_same(expected, actual)
    assert differences(expected, actual, "value", EXACTLY)


@pytest.mark.rules("Q8.4")
def test_difference_names_the_column() -> None:
    assert differences({"A": [1, {"B": 2}]}, {"A": [1, {"B": 3}]}, "value", EXACTLY) == [
        Difference("value.A[1].B", 2, 3)
    ]


def test_absent_columns_are_named_on_both_sides() -> None:
    found = differences({"A": 1, "B": 2}, {"A": 1, "C": 3, "D": 4}, "value", EXACTLY)
    assert Difference("value.B", 2, ABSENT) in found
    assert Difference("value.C", ABSENT, 3) in found


@pytest.mark.rules("Q8.3")
def test_inexact_comparison_reads_fractions_as_doubles() -> None:
    assert is_same(D("1.5"), D("1.50"), rules=Rules(exact=False))
    assert is_same(1, D("1.0"), rules=Rules(exact=False))
    assert not is_same(D("1.5"), D("1.51"), rules=Rules(exact=False))


NAMES = ("A", "a", "B", "ITEMS", "__x", "it's", 'a "b"', "A.B", "[0]", "")
SCALARS: tuple[Any, ...] = (None, True, 0, 1, 2**63, D("1.0"), D("1.00"), D("0.5"), "", "1.0", "YWI=", "x")


def value(random: Random, *, written: bool, depth: int = 3) -> Any:
    """A value of a case, or one as the engine gives it, of few names and scalars, so that two are often alike."""
    kind = random.choice(("object", "array", "scalar", "scalar")) if depth else "scalar"
    if kind == "object":
        names = random.sample(NAMES, random.randrange(4))
        return {name: value(random, written=written, depth=depth - 1) for name in names}
    if kind == "array":
        items = [value(random, written=written, depth=depth - 1) for _ in range(random.randrange(3))]
        return tuple(items) if written and random.random() < 0.5 else items
    return random.choice((*SCALARS, *((b"ab", b"", 0.5, 1.0, float("nan")) if written else ())))


def test_what_is_not_the_same_has_a_difference_that_is_named() -> None:
    random = Random(7)
    ways = [Matching(), Matching(ignore=("value.A", "value.ITEMS.B", "value.it's")), Matching(tolerance=D("0.5"))]
    count = 0
    for _ in range(5000):
        expected = value(random, written=False)
        actual = value(random, written=True) if random.random() < 0.7 else expected
        for matching in ways:
            found = differences(expected, actual, "value", Rules(matching=matching))
            assert bool(found) is not is_same(expected, actual, "value", Rules(matching=matching)), (expected, actual)
            assert not any(matching.ignores(each.column) for each in found)
            count += bool(found)
    assert count > 3000


@pytest.mark.rules("Q8.5")
def test_a_tolerance_is_a_distance_and_rounds_nothing() -> None:
    """1.004 and 1.006 are near each other, and are rounded to different hundredths."""
    near = Rules(matching=Matching(tolerance=D("0.01")))
    assert differences({"A": [D("1.004")]}, {"A": [D("1.006")]}, "value", near) == []
    assert differences({"A": [D("1.004")]}, {"A": [D("1.0151")]}, "value", near) == [
        Difference("value.A[0]", D("1.004"), D("1.0151"))
    ]
