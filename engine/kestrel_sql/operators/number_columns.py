"""Columns of numbers, and the states of aggregates as such columns.

A value is NULL if its flag in `valid` is off; the number is then arbitrary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]


class NumberColumn(msgspec.Struct, frozen=True):
    """A column of numbers, with a flag per number that is off for NULL.

    `signs` has -1 for numbers that are taken back, and 1 for others; without it, all are added.
    """

    values: Numbers
    valid: Flags
    signs: Numbers | None = None

    def at(self, indices: Numbers | Sequence[int]) -> NumberColumn:
        """The numbers at these indices, all added."""
        return NumberColumn(self.values[indices], self.valid[indices])

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> NumberColumn:
        return NumberColumn(self.values[part], self.valid[part])

    def listed(self) -> list[object]:
        """The numbers as a list, with None for NULL."""
        return objects_of((self,))

    def picked(self, before: Sequence[float | None], indices: Numbers) -> NumberColumn:
        """The numbers at these indices, and for `~index` those of a list."""
        if not before:
            return self.at(indices)
        first = number_column(before)
        values = np.concatenate([self.values, first.values[::-1].astype(self.values.dtype, copy=False)])
        return NumberColumn(values[indices], np.concatenate([self.valid, first.valid[::-1]])[indices])

    def counts(self) -> Numbers:
        """By how much each number changes the count of those that are not NULL."""
        counts = self.valid.astype(np.int64)
        return counts if self.signs is None else counts * self.signs


States = tuple[NumberColumn, ...]
"""States of groups: a column of states that are numbers or NULL, or one for each number of states that are lists."""


def all_valid(values: Numbers) -> NumberColumn:
    """A column without NULL."""
    return NumberColumn(values, np.ones(len(values), dtype=bool))


def columns_of(states: Sequence[Any]) -> States:
    """Return states as columns; all are numbers or None, or all are lists of as many of them."""
    if states and isinstance(states[0], list):
        return tuple(number_column(numbers) for numbers in zip(*states, strict=True))
    return (number_column(states),)


def number_column(numbers: Sequence[float | None]) -> NumberColumn:
    """Return numbers as a column of 64-bit integers or doubles."""
    found = np.array(numbers)
    if found.dtype in (np.int64, np.float64):
        return all_valid(found)
    known = np.fromiter((number is not None for number in numbers), bool, len(numbers))
    return NumberColumn(np.array(np.where(known, found, 0).tolist()), known)


def column_of(values: Sequence[object], kind: str | None) -> NumberColumn:
    """Return values as numbers of a type of NumPy; without one, only which are not NULL."""
    known = np.fromiter((value is not None for value in values), bool, len(values))
    if kind is None:
        return NumberColumn(np.zeros(len(values), np.int64), known)
    return NumberColumn(np.array(values if known.all() else [value or 0 for value in values], kind), known)


def objects_of(states: States) -> list[object]:
    """Return what `columns_of` takes."""
    columns = [
        column.values.tolist()
        if column.valid.all()
        else [
            value if valid else None for value, valid in zip(column.values.tolist(), column.valid.tolist(), strict=True)
        ]
        for column in states
    ]
    return columns[0] if len(columns) == 1 else [*map(list, zip(*columns, strict=True))]
