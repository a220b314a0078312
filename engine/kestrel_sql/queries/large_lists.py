"""Long lists in steps: to sort or to free one at once keeps all other threads from Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

_PIECE = 4_096
"""About how many items are sorted at once: that takes some milliseconds."""


def drained(items: list[T]) -> Iterator[T]:
    """Take the items out of a list, in their order."""
    items.reverse()
    while items:
        yield items.pop()


def ordered(pairs: list[tuple[tuple[int, bytes], T]]) -> Iterator[T]:
    """Take pairs of a sort key and a value out of a list, and give the values in the order of their keys."""
    apart = len(pairs) // _PIECE
    sample = sorted(key for key, _ in pairs[:: max(1, len(pairs) // (_PIECE // 4))]) if apart else []
    bounds = sample[:: max(1, len(sample) // (apart + 1))]
    parts: list[list[tuple[tuple[int, bytes], T]]] = [[] for _ in range(len(bounds) + 1)]
    for pair in drained(pairs):
        parts[bisect_right(bounds, pair[0])].append(pair)
    for part in parts:
        part.sort(key=_first)
        for _, value in drained(part):
            yield value


def _first(pair: tuple[tuple[int, bytes], object]) -> tuple[int, bytes]:
    return pair[0]
