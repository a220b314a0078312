"""Finds the rows of two streams that meet: equal keys, and timestamps that are close enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kestrel_sql.operators.number_columns import Flags, Numbers


@dataclass(frozen=True, slots=True)
class Arrived:
    """What decides about each row of a batch, in order of the ordinals.

    Attributes:
        sides: its input: 0 for left, 1 for right.
        times: its timestamp (ms).
        now: the stream time (ms) after it.
        has_value: whether it has a value.
        stores: whether it has a key and a value, and so can meet others.
    """

    sides: Numbers
    times: Numbers
    now: Numbers
    has_value: Flags
    stores: Flags


class Meetable:
    """Rows that later ones may meet, sorted by bucket, timestamp and arrival; a bucket is a key of one of the streams.

    Attributes:
        order: the index of each row in the order in which they were given, which is that of arrival.
        buckets: the bucket of each row.
        times: its timestamp (ms).
        arrivals: its index in the batch; -1 for a row of the state.
    """

    __slots__ = ("_codes", "_steps", "arrivals", "buckets", "order", "times")

    def __init__(self, buckets: Numbers, times: Numbers, arrivals: Numbers) -> None:
        """Sort the rows."""
        self._steps, steps = np.unique(times, return_inverse=True)
        codes = self._code(buckets, steps)
        self.order: Numbers = np.argsort(codes, kind="stable")
        self._codes = codes[self.order]
        self.buckets: Numbers = buckets[self.order]
        self.times: Numbers = times[self.order]
        self.arrivals: Numbers = arrivals[self.order]

    def spans(self, buckets: Numbers, earliest: Numbers, latest: Numbers) -> tuple[Numbers, Numbers]:
        """The first row and the number of rows of each bucket and span of time (ms, inclusive)."""
        first = np.searchsorted(self._codes, self._code(buckets, np.searchsorted(self._steps, earliest)))
        end = np.searchsorted(self._codes, self._code(buckets, np.searchsorted(self._steps, latest, "right")))
        return first, np.maximum(end - first, 0)

    def in_state(self, first: Numbers, counts: Numbers) -> Numbers:
        """The rows of the state that are in one of these spans."""
        first, end = first[counts > 0], (first + counts)[counts > 0]
        size = len(self.order) + 1
        depth = np.cumsum(np.bincount(first, minlength=size) - np.bincount(end, minlength=size))
        found: Numbers = np.flatnonzero((depth[:-1] > 0) & (self.arrivals < 0))
        return found

    def _code(self, buckets: Numbers, steps: Numbers) -> Numbers:
        found: Numbers = buckets * (len(self._steps) + 1) + steps
        return found


def expanded(first: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """The members of spans: for each the index of its span, and the row."""
    spans = np.repeat(np.arange(len(first)), counts)
    return spans, np.arange(len(spans)) + np.repeat(first - np.cumsum(counts) + counts, counts)


def chunks(counts: Numbers, most: int) -> Iterator[tuple[int, int]]:
    """Cut spans into ranges of roughly `most` members at most, each of at least one span."""
    total = np.cumsum(counts)
    start = 0
    while start < len(counts):
        done = total[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(total, done + most, "right")))
        yield start, end
        start = end
