"""Aggregates over whole columns: the results of every row of every group at once, exactly those that row by row would give.

Rows are sorted by group, those of a group in place order. A value is NULL where its flag in `valid` is off; what stands there then is
arbitrary. Integers wrap as Java's do, doubles are added one after the other, and -0.0 stands before 0.0, NaN after all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kestrel_sql.functions.declaration import Fold

Numbers = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

_MOST = 2**62
_POSITIVE = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True)
class Values:
    """A column of numbers."""

    values: Numbers
    valid: Flags


@dataclass(frozen=True, slots=True)
class Segments:
    """Where the rows of each group begin, among rows sorted by group."""

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
        """What held before each row: what the row before it left, `first` before a group's first one."""
        values, valid = np.roll(after.values, 1), np.roll(after.valid, 1)
        values[self.starts], valid[self.starts] = first.values, first.valid
        return Values(values, valid)


@dataclass(frozen=True, slots=True)
class Folded:
    """What an aggregate gives: its results before the first row of each group and after each row, and each group's last state."""

    first: Values
    after: Values
    states: list[Any]


def fold_rows(fold: Fold, states: Sequence[Any], given: Values, rows: Segments) -> Folded:
    """Fold rows into the groups' states; the type of the numbers in `given` is that of the aggregate's argument."""
    return _FOLDS[fold](states, given, rows)


def greatest(states: Sequence[int | None], given: Values, rows: Segments) -> Folded:
    """Keep each group's greatest integer that is not NULL; None where there is none."""
    return _extreme(states, given, rows, lambda number: number)


def _count(states: Sequence[int], given: Values, rows: Segments) -> Folded:
    first, after = _running(np.array(states, np.int64), given.valid.astype(np.int64), rows)
    return Folded(_all(first), _all(after), after[rows.ends].tolist())


def _sum(states: Sequence[Any], given: Values, rows: Segments) -> Folded:
    first, after = _sums(states, given, rows)
    return Folded(_all(first), _all(after), after[rows.ends].tolist())


def _average(states: Sequence[Sequence[Any]], given: Values, rows: Segments) -> Folded:
    first_sum, sums = _sums([state[0] for state in states], given, rows)
    first_count, counts = _running(
        np.array([state[1] for state in states], np.int64), given.valid.astype(np.int64), rows
    )
    last = zip(sums[rows.ends].tolist(), counts[rows.ends].tolist(), strict=True)
    return Folded(_all(_ratio(first_sum, first_count)), _all(_ratio(sums, counts)), [list(state) for state in last])


def _smallest(states: Sequence[Any], given: Values, rows: Segments) -> Folded:
    # The complement turns the order of integers round, and no integer overflows by it.
    return _extreme(states, given, rows, np.invert)


def _all(values: Numbers) -> Values:
    return Values(values, np.ones(len(values), dtype=bool))


def _ratio(sums: Numbers, counts: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        return np.where(counts == 0, 0.0, sums.astype(np.float64) / np.where(counts == 0, 1, counts).astype(np.float64))


def _sums(states: Sequence[Any], given: Values, rows: Segments) -> tuple[Numbers, Numbers]:
    """The sums before each group's first row and after each row, in the type of the numbers."""
    kind = given.values.dtype
    values = np.where(given.valid, given.values, kind.type(0))
    if kind == np.float64:
        # A sum that begins with 0.0 is never -0.0, so that adding 0.0 for NULL leaves it as it is.
        first = np.array(states, np.float64)
        return first, _running_doubles(first, values, rows)
    first, after = _running(np.array(states, np.int64), values.astype(np.int64), rows)
    return first.astype(kind), after.astype(kind)


def _running(first: Numbers, values: Numbers, rows: Segments) -> tuple[Numbers, Numbers]:
    """Running sums of 64-bit integers, which wrap."""
    total = np.cumsum(values)
    before = total[rows.starts] - values[rows.starts]
    return first, total + (first - before)[rows.groups]


def _running_doubles(first: Numbers, values: Numbers, rows: Segments) -> Numbers:
    """Running sums of doubles, each group's added from left to right."""
    with np.errstate(all="ignore"):
        found = values.copy()
        found[rows.starts] = first + values[rows.starts]
        most = int(rows.sizes.max(initial=0))
        if most > len(rows.starts):
            for start, end in zip(rows.starts.tolist(), (rows.ends + 1).tolist(), strict=True):
                found[start:end] = np.add.accumulate(found[start:end])
            return found
        for turn in range(1, most):
            at = rows.starts[rows.sizes > turn] + turn
            found[at] += found[at - 1]
        return found


def _extreme(states: Sequence[Any], given: Values, rows: Segments, turned: Callable[[Numbers], Numbers]) -> Folded:
    kind, groups = given.values.dtype, len(states)
    known = np.array([state is not None for state in states], dtype=bool)
    first = np.array([0 if state is None else state for state in states], dtype=kind)
    ranks, levels = _ranked(turned(_ordered(np.concatenate([first, given.values]))))
    ranks = np.where(np.concatenate([known, given.valid]), ranks, 0)
    best = ranks[groups:]
    best[rows.starts] = np.maximum(best[rows.starts], ranks[:groups])
    # A group's ranks lie above those of all groups before it, so that one pass serves all.
    above = rows.groups * (int(ranks.max(initial=0)) + 1)
    best = np.maximum.accumulate(best + above) - above
    after = Values(_plain(turned(levels(best)), kind), best > 0)
    ends = rows.ends
    last = [
        value if valid else None
        for value, valid in zip(after.values[ends].tolist(), after.valid[ends].tolist(), strict=True)
    ]
    return Folded(Values(first, known), after, last)


def _ranked(values: Numbers) -> tuple[Numbers, Callable[[Numbers], Numbers]]:
    """Ranks of integers from 1, and how a rank becomes an integer again; numbers close to each other are their own ranks."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if (high - low + 2) * (len(values) + 1) < _MOST:
        return values - (low - 1), lambda ranks: ranks + (low - 1)
    levels, ranks = np.unique(values, return_inverse=True)
    return ranks + 1, lambda found: levels[np.maximum(found, 1) - 1]


def _ordered(values: Numbers) -> Numbers:
    """Integers in the order of the values: -0.0 before 0.0, NaN last."""
    if values.dtype != np.float64:
        return values.astype(np.int64)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ _POSITIVE, bits)


def _plain(ordered: Numbers, kind: np.dtype[Any]) -> Numbers:
    """The values again."""
    if kind != np.float64:
        return ordered.astype(kind)
    return np.where(ordered < 0, ordered ^ _POSITIVE, ordered).view(np.float64)


_FOLDS: Mapping[Fold, Callable[[Sequence[Any], Values, Segments], Folded]] = {
    Fold.COUNT: _count,
    Fold.SUM: _sum,
    Fold.AVG: _average,
    Fold.MIN: _smallest,
    Fold.MAX: greatest,
}
