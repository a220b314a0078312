from __future__ import annotations

import pytest

from kestrel_qtt.judge.align import Pair, align


def aligned(expected: str, actual: str) -> list[Pair]:
    """Align words, one a record; the first letter is its key."""
    left, right = expected.split(), actual.split()
    return align(
        len(left),
        len(right),
        lambda one, other: left[one] == right[other],
        lambda one, other: left[one][0] == right[other][0],
    )


def differing(expected: str, actual: str) -> list[Pair]:
    left, right = expected.split(), actual.split()
    return [
        pair
        for pair in aligned(expected, actual)
        if pair.moved or pair.expected is None or pair.actual is None or left[pair.expected] != right[pair.actual]
    ]


@pytest.mark.parametrize(
    ("expected", "actual", "pairs"),
    [
        ("a1 b1 c1", "a1 b1 c1", []),
        ("a1 b1 c1", "b1 c1", [Pair(0, None)]),
        ("a1 c1", "a1 b1 c1", [Pair(None, 1)]),
        ("a1 b1 c1", "a1 b2 c1", [Pair(1, 1)]),
        ("a1 b1", "b1 a1", [Pair(0, 1, moved=True)]),
        ("a1 b1 c1", "a1 d1 c1", [Pair(1, 1)]),
        ("a1 b1", "b2 a2", [Pair(0, 1), Pair(1, 0)]),
        ("", "a1", [Pair(None, 0)]),
        ("a1 a1 b1", "a1 b1", [Pair(1, None)]),
        ("a1 b1 c1", "d1", [Pair(None, 0), Pair(0, None), Pair(1, None), Pair(2, None)]),
    ],
)
def test_one_slip_is_one_difference(expected: str, actual: str, pairs: list[Pair]) -> None:
    assert differing(expected, actual) == pairs


def test_each_record_is_in_one_pair() -> None:
    pairs = aligned("a1 b1 a2 c1 b1 d1", "b1 a1 a1 d1 c2 e1 b1")
    assert sorted(pair.expected for pair in pairs if pair.expected is not None) == list(range(6))
    assert sorted(pair.actual for pair in pairs if pair.actual is not None) == list(range(7))


def test_long_sequences_take_no_table() -> None:
    many = " ".join(f"k{n}" for n in range(3000))
    other = " ".join(f"k{n}" for n in reversed(range(3000)))
    assert len(differing(f"{many} a1", f"{many} b1")) == 1
    assert len(differing(many, other)) == 3000
