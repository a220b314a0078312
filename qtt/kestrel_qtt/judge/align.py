"""Align expected and written records: equal ones in order, equal ones elsewhere, then those of one key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import msgspec

_CELLS = 250_000


class Pair(msgspec.Struct, frozen=True):
    """Indices of an expected and a written record that belong together, None where one side has none.

    The records of a `moved` pair are equal and stand at different places in the order.
    """

    expected: int | None
    actual: int | None
    moved: bool = False


Same = Callable[[int, int], bool]


def align(expected: int, actual: int, equal: Same, same_key: Same) -> list[Pair]:
    """Align two sequences of the given lengths, in the order of the expected one.

    `equal` and `same_key` compare an expected with a written record, both by index.
    """
    anchors = _longest_common(range(expected), range(actual), equal)
    left, right = _rest(range(expected), range(actual), anchors)
    moved = list(_matched(left, right, equal))
    left, right = _rest(left, right, moved)
    pairs = [Pair(one, other) for one, other in anchors] + [Pair(one, other, moved=True) for one, other in moved]
    for ones, others in _gaps(left, right, anchors):
        pairs += _gap(ones, others, same_key)
    return _in_order(pairs)


def _longest_common(left: Sequence[int], right: Sequence[int], equal: Same) -> list[tuple[int, int]]:
    """The longest common sequence of two lists of indices; of very long ones, what a walk from both ends finds."""
    start = 0
    while start < min(len(left), len(right)) and equal(left[start], right[start]):
        start += 1
    end = 0
    while end < min(len(left), len(right)) - start and equal(left[-1 - end], right[-1 - end]):
        end += 1
    head = list(zip(left[:start], right[:start], strict=True))
    tail = list(zip(left[len(left) - end :], right[len(right) - end :], strict=True))
    middle = left[start : len(left) - end], right[start : len(right) - end]
    if len(middle[0]) * len(middle[1]) > _CELLS:
        return head + tail
    return head + _by_table(*middle, equal) + tail


def _by_table(left: Sequence[int], right: Sequence[int], equal: Same) -> list[tuple[int, int]]:
    same = [[equal(one, other) for other in right] for one in left]
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same[i][j] else max(lengths[i + 1][j], lengths[i][j + 1])
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if same[i][j]:
            found.append((left[i], right[j]))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _rest(left: Sequence[int], right: Sequence[int], found: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """What is left on both sides."""
    ones, others = {one for one, _ in found}, {other for _, other in found}
    return [index for index in left if index not in ones], [index for index in right if index not in others]


def _matched(left: Sequence[int], right: Sequence[int], same: Same) -> Iterator[tuple[int, int]]:
    """Pair each of `left` with the first one of `right` that is the same and free."""
    free = list(right)
    for one in left:
        other = next((index for index in free if same(one, index)), None)
        if other is not None:
            free.remove(other)
            yield one, other


def _gaps(
    left: Sequence[int], right: Sequence[int], anchors: Sequence[tuple[int, int]]
) -> Iterator[tuple[list[int], list[int]]]:
    """What is left on both sides between two anchors."""
    edges = [(-1, -1), *anchors, (max(left, default=0) + 1, max(right, default=0) + 1)]
    for before, after in pairwise(edges):
        ones = [index for index in left if before[0] < index < after[0]]
        others = [index for index in right if before[1] < index < after[1]]
        if ones or others:
            yield ones, others


def _gap(left: list[int], right: list[int], same_key: Same) -> Iterator[Pair]:
    """Pair records of one key, then the rest if both sides have equally many of them."""
    keyed = list(_matched(left, right, same_key))
    yield from (Pair(one, other) for one, other in keyed)
    ones, others = _rest(left, right, keyed)
    if len(ones) == len(others):
        yield from (Pair(one, other) for one, other in zip(ones, others, strict=True))
    else:
        yield from (Pair(one, None) for one in ones)
        yield from (Pair(None, other) for other in others)


def _in_order(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs in the order of the expected records.

    A record that only the written side has comes after the one before it.
    """
    before = {pair.actual: pair.expected for pair in pairs if pair.actual is not None and pair.expected is not None}

    def place(pair: Pair) -> tuple[int, int, int]:
        if pair.expected is not None:
            return pair.expected, 0, 0
        at = pair.actual or 0
        last = next((index for index in range(at, -1, -1) if index in before), None)
        return -1 if last is None else before[last], 1, at

    return sorted(pairs, key=place)
