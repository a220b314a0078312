"""Aggregates whole columns of numbers at once; the results equal those of the row-by-row operators.

Rows are sorted by group and, within a group, by ordinal. Integers wrap as in Java, doubles are added from left to
right, -0.0 sorts before 0.0, and NaN sorts last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kestrel_sql.functions.declaration import Fold
from kestrel_sql.operators.number_columns import Numbers, States, Values, all_valid

_RANK_LIMIT = 2**62
_ALL_BUT_SIGN = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True)
class Segments:
    """The groups of rows that are sorted by group: the index of each group's first row, and the number of rows."""

    starts: Numbers
    size: int
    sizes: Numbers = field(init=False)
    groups: Numbers = field(init=False)
    """The group of each row."""

    def __post_init__(self) -> None:
        sizes = np.diff(self.starts, append=self.size)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "groups", np.repeat(np.arange(len(self.starts)), sizes))

    @property
    def ends(self) -> Numbers:
        """The last row of each group."""
        return self.starts + self.sizes - 1

    def before(self, first: Values, after: Values) -> Values:
        """The value before each row: the value after the previous row, or `first` at the first row of a group."""
        values, valid = np.roll(after.values, 1), np.roll(after.valid, 1)
        values[self.starts], valid[self.starts] = first.values, first.valid
        return Values(values, valid)


@dataclass(frozen=True, slots=True)
class Folded:
    """The results of an aggregate: before the first row of each group, after each row, and each group's final state."""

    first: Values
    after: Values
    states: States


def fold_rows(fold: Fold, states: States, column: Values, rows: Segments) -> Folded:
    """Add rows to the states of their groups; the dtype of `column` is that of the aggregate's argument."""
    return _FOLDS[fold](states, column, rows)


def greatest(states: States, column: Values, rows: Segments) -> Folded:
    """Compute each group's greatest number that is not NULL; NULL if there is none."""
    return _extreme(states, column, rows, lambda number: number)


def _count(states: States, column: Values, rows: Segments) -> Folded:
    first, after = _running(states[0].values, column.counts(), rows)
    return Folded(all_valid(first), all_valid(after), (all_valid(after[rows.ends]),))


def _sum(states: States, column: Values, rows: Segments) -> Folded:
    first, after = _sums(states[0].values, column, rows)
    return Folded(all_valid(first), all_valid(after), (all_valid(after[rows.ends]),))


def _average(states: States, column: Values, rows: Segments) -> Folded:
    first_sum, sums = _sums(states[0].values, column, rows)
    first_count, counts = _running(states[1].values, column.counts(), rows)
    last = all_valid(sums[rows.ends]), all_valid(counts[rows.ends])
    return Folded(all_valid(_ratio(first_sum, first_count)), all_valid(_ratio(sums, counts)), last)


def _smallest(states: States, column: Values, rows: Segments) -> Folded:
    # The complement reverses the order of integers without overflow.
    return _extreme(states, column, rows, np.invert)


def _ratio(sums: Numbers, counts: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        return np.where(counts == 0, 0.0, sums.astype(np.float64) / np.where(counts == 0, 1, counts).astype(np.float64))


def _sums(first: Numbers, column: Values, rows: Segments) -> tuple[Numbers, Numbers]:
    """The sums before each group's first row and after each row, in the dtype of the column."""
    kind = column.values.dtype
    values = np.where(column.valid, column.values, kind.type(0))
    if column.signs is not None:
        values = np.where(column.signs < 0, -values, values)
    if kind == np.float64:
        # A sum that starts at 0.0 is never -0.0, so adding 0.0 for NULL changes nothing.
        first = first.astype(np.float64, copy=False)
        return first, _running_doubles(first, values, rows)
    first, after = _running(first, values.astype(np.int64), rows)
    return first.astype(kind), after.astype(kind)


def _running(first: Numbers, values: Numbers, rows: Segments) -> tuple[Numbers, Numbers]:
    """Running sums of 64-bit integers, which wrap on overflow."""
    total = np.cumsum(values)
    before = total[rows.starts] - values[rows.starts]
    return first, total + (first - before)[rows.groups]


def _running_doubles(first: Numbers, values: Numbers, rows: Segments) -> Numbers:
    """Running sums of doubles, added from left to right within each group."""
    with np.errstate(all="ignore"):
        sums = values.copy()
        sums[rows.starts] = first + values[rows.starts]
        largest = int(rows.sizes.max(initial=0))
        if largest > len(rows.starts):
            for start, end in zip(rows.starts.tolist(), (rows.ends + 1).tolist(), strict=True):
                sums[start:end] = np.add.accumulate(sums[start:end])
            return sums
        for position in range(1, largest):
            at = rows.starts[rows.sizes > position] + position
            sums[at] += sums[at - 1]
        return sums


def _extreme(states: States, column: Values, rows: Segments, direct: Callable[[Numbers], Numbers]) -> Folded:
    kind, known = column.values.dtype, states[0].valid
    first, groups = states[0].values.astype(kind, copy=False), len(known)
    ranks, levels = _ranked(direct(_ordered(np.concatenate([first, column.values]))))
    ranks = np.where(np.concatenate([known, column.valid]), ranks, 0)
    best = ranks[groups:]
    best[rows.starts] = np.maximum(best[rows.starts], ranks[:groups])
    # Ranks of a group are shifted above those of all groups before it, so one pass covers all groups.
    above = rows.groups * (int(ranks.max(initial=0)) + 1)
    best = np.maximum.accumulate(best + above) - above
    after = Values(_plain(direct(levels(best)), kind), best > 0)
    return Folded(Values(first, known), after, (after.at(rows.ends),))


def _ranked(values: Numbers) -> tuple[Numbers, Callable[[Numbers], Numbers]]:
    """Return ranks of integers, from 1, and a function that turns ranks back; a small range needs no sorting."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if (high - low + 2) * (len(values) + 1) < _RANK_LIMIT:
        return values - (low - 1), lambda ranks: ranks + (low - 1)
    levels, ranks = np.unique(values, return_inverse=True)
    return ranks + 1, lambda wanted: levels[np.maximum(wanted, 1) - 1]


def _ordered(values: Numbers) -> Numbers:
    """Return integers in the order of the values: -0.0 before 0.0, NaN last."""
    if values.dtype != np.float64:
        return values.astype(np.int64)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)


def _plain(ordered: Numbers, kind: np.dtype[Any]) -> Numbers:
    """Turn the integers of `_ordered` back into values."""
    if kind != np.float64:
        return ordered.astype(kind)
    return np.where(ordered < 0, ordered ^ _ALL_BUT_SIGN, ordered).view(np.float64)


_FOLDS: Mapping[Fold, Callable[[States, Values, Segments], Folded]] = {
    Fold.COUNT: _count,
    Fold.SUM: _sum,
    Fold.AVG: _average,
    Fold.MIN: _smallest,
    Fold.MAX: greatest,
}
