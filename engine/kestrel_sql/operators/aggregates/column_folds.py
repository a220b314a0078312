"""Folds aggregates over whole columns of numbers; the results equal those of the calls for single values.

Rows are sorted by group and, within a group, by ordinal. Integers wrap as in Java, doubles are added from left to
right, -0.0 sorts before 0.0, and NaN sorts last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from kestrel_sql.functions.declaration import Fold
from kestrel_sql.operators.number_columns import NumberColumn, Numbers, States, all_valid, columns_of, objects_of
from kestrel_sql.operators.operator import Batch

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


class Folded(msgspec.Struct, frozen=True):
    """The results of an aggregate after each row, and each group's final state."""

    after: NumberColumn
    states: States


class Sorted(msgspec.Struct, frozen=True):
    """Entries that change groups, sorted by group.

    Attributes:
        order: the index of each among the entries as they were given.
        refs: the row that each adds, or the version that it takes back.
        groups: the number of each group that has any.
        segments: where those of each group are.
    """

    order: Numbers
    refs: Numbers
    groups: Sequence[int]
    segments: Segments

    @classmethod
    def of(cls, slots: Sequence[int], refs: Sequence[int], entries: Sequence[int]) -> Sorted:
        """Sort some of the entries, of which all groups and rows are given."""
        owners, rows = np.array(slots, np.int64), np.arange(len(refs)) if isinstance(refs, range) else np.array(refs)
        if len(entries) < len(slots):
            owners, rows = owners[np.array(entries)], rows[np.array(entries)]
        order = np.argsort(owners.astype(np.uint16) if owners.max() < 1 << 16 else owners, kind="stable")
        owners = owners[order]
        starts = np.flatnonzero(np.concatenate([[True], np.diff(owners) != 0]))
        return cls(order, rows[order], owners[starts].tolist(), Segments(starts, len(order)))

    def fold(self, fold: Fold, states: list[object], rows: Batch, arguments: Sequence[int]) -> NumberColumn:
        """Fold an aggregate: update the states of all groups, and return the result after each entry, as given."""
        column = self._column(rows, arguments, counted=fold is Fold.COUNT)
        folded = _FOLDS[fold](columns_of([states[group] for group in self.groups]), column, self.segments)
        for group, state in zip(self.groups, objects_of(folded.states), strict=True):
            states[group] = state
        values, valid = np.empty_like(folded.after.values), np.empty_like(folded.after.valid)
        values[self.order], valid[self.order] = folded.after.values, folded.after.valid
        return NumberColumn(values, valid)

    def _column(self, rows: Batch, arguments: Sequence[int], *, counted: bool) -> NumberColumn:
        """The argument of an aggregate at each entry; only which are not NULL, if they are `counted`."""
        undone = self.refs[0] < 0 or bool((self.refs < 0).any())
        signs = np.where(self.refs < 0, -1, 1) if undone else None
        if not arguments:
            return NumberColumn(np.zeros(len(self.refs), np.int64), np.ones(len(self.refs), dtype=bool), signs)
        given: NumberColumn = rows.numbers(arguments[0], counted=counted)
        values, valid = given.values, given.valid
        if undone:
            old: NumberColumn = rows.numbers(arguments[0], counted=counted, old=True)
            values, valid = np.concatenate([values, old.values[::-1]]), np.concatenate([valid, old.valid[::-1]])
        return NumberColumn(values[self.refs], valid[self.refs], signs)


def _count(states: States, column: NumberColumn, rows: Segments) -> Folded:
    after = _running(states[0].values, column.counts(), rows)
    return Folded(all_valid(after), (all_valid(after[rows.ends]),))


def _sum(states: States, column: NumberColumn, rows: Segments) -> Folded:
    after = _sums(states[0].values, column, rows)
    return Folded(all_valid(after), (all_valid(after[rows.ends]),))


def _average(states: States, column: NumberColumn, rows: Segments) -> Folded:
    sums = _sums(states[0].values, column, rows)
    counts = _running(states[1].values, column.counts(), rows)
    return Folded(all_valid(_ratio(sums, counts)), (all_valid(sums[rows.ends]), all_valid(counts[rows.ends])))


def _greatest(states: States, column: NumberColumn, rows: Segments) -> Folded:
    return _extreme(states, column, rows, lambda number: number)


def _smallest(states: States, column: NumberColumn, rows: Segments) -> Folded:
    # The complement reverses the order of integers without overflow.
    return _extreme(states, column, rows, np.invert)


def _ratio(sums: Numbers, counts: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        return np.where(counts == 0, 0.0, sums.astype(np.float64) / np.where(counts == 0, 1, counts).astype(np.float64))


def _sums(first: Numbers, column: NumberColumn, rows: Segments) -> Numbers:
    """The sums after each row, in the dtype of the column."""
    kind = column.values.dtype
    values = np.where(column.valid, column.values, kind.type(0))
    if column.signs is not None:
        values = np.where(column.signs < 0, -values, values)
    if kind == np.float64:
        # A sum that starts at 0.0 is never -0.0, so adding 0.0 for NULL changes nothing.
        return _running_doubles(first.astype(np.float64, copy=False), values, rows)
    return _running(first, values.astype(np.int64), rows).astype(kind)


def _running(first: Numbers, values: Numbers, rows: Segments) -> Numbers:
    """Running sums of 64-bit integers, which wrap on overflow."""
    total = np.cumsum(values)
    before = total[rows.starts] - values[rows.starts]
    found: Numbers = total + (first - before)[rows.groups]
    return found


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


def _extreme(states: States, column: NumberColumn, rows: Segments, direct: Callable[[Numbers], Numbers]) -> Folded:
    kind, known = column.values.dtype, states[0].valid
    first, groups = states[0].values.astype(kind, copy=False), len(known)
    ranks, levels = _ranked(direct(_ordered(np.concatenate([first, column.values]))))
    ranks = np.where(np.concatenate([known, column.valid]), ranks, 0)
    best = ranks[groups:]
    best[rows.starts] = np.maximum(best[rows.starts], ranks[:groups])
    # Ranks of a group are shifted above those of all groups before it, so one pass covers all groups.
    above = rows.groups * (int(ranks.max(initial=0)) + 1)
    best = np.maximum.accumulate(best + above) - above
    after = NumberColumn(_plain(direct(levels(best)), kind), best > 0)
    return Folded(after, (after.at(rows.ends),))


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


def _plain(ordered: Numbers, kind: npt.DTypeLike) -> Numbers:
    """Turn the integers of `_ordered` back into values."""
    if kind != np.float64:
        return ordered.astype(kind)
    return np.where(ordered < 0, ordered ^ _ALL_BUT_SIGN, ordered).view(np.float64)


_FOLDS: Mapping[Fold, Callable[[States, NumberColumn, Segments], Folded]] = {
    Fold.COUNT: _count,
    Fold.SUM: _sum,
    Fold.AVG: _average,
    Fold.MIN: _smallest,
    Fold.MAX: _greatest,
}
"""Each adds rows to the states of their groups; the dtype of the column is that of the aggregate's argument."""
