"""The rows of a page sorted by group, and the part of the state that each belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kestrel_sql.operators.aggregates.by_column import Segments
from kestrel_sql.operators.group import STATES, TIMESTAMP, Group
from kestrel_sql.operators.group_columns import FoundGroups
from kestrel_sql.operators.number_columns import Numbers, States, Values, columns_of, number_column


@dataclass(frozen=True, slots=True)
class Shares:
    """The part of the state that each row belongs to: a window, or the whole state of an aggregate without windows.

    Attributes:
        names: the shares: starts of windows (ms), or 0.
        numbers: the index in `names` for each row.
        positions: the position of each row among the outputs of its input row.
        bounds: start and end (ms) of the window of each row.
    """

    names: Sequence[int]
    numbers: Numbers
    positions: Numbers
    bounds: tuple[pa.Array, pa.Array] | None = None


@dataclass(frozen=True, slots=True)
class GroupObjects:
    """Groups that are objects, as they were before the rows.

    Attributes:
        groups: the groups; those that no state has are new.
        own: the dictionary that stores each group.
        times: the timestamps (ms).
        states: the states of each aggregate.
    """

    groups: list[Group]
    own: list[dict[bytes, Group]]
    times: Values
    states: Sequence[States]

    @staticmethod
    def of(own: list[dict[bytes, Group]], names: Sequence[bytes], fresh: Group) -> GroupObjects:
        """The groups of these names, each in its dictionary; those that are absent are like `fresh`."""
        groups = [stored.get(name, fresh) for stored, name in zip(own, names, strict=True)]
        states = [columns_of([group[STATES][at] for group in groups]) for at in range(len(fresh[STATES]))]
        return GroupObjects(groups, own, number_column([group[TIMESTAMP] for group in groups]), states)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows in the order of their ordinals, and sorted by group.

    `order` has the index of each row of the latter in the former.
    """

    structs: pa.StructArray
    given_times: Numbers
    order: Numbers
    rows: Segments
    keys: pa.StructArray
    names: list[bytes]
    before: GroupObjects | FoundGroups

    @property
    def objects(self) -> GroupObjects:
        """The groups before the rows, where they are objects."""
        assert isinstance(self.before, GroupObjects)  # noqa: S101 - groups with more than numbers always are
        return self.before

    @property
    def last(self) -> Numbers:
        """The index of the last row of each group."""
        return self.order[self.rows.ends]

    def times(self) -> Values:
        """The timestamps (ms) of the rows, sorted by group."""
        return Values(self.given_times[self.order], np.ones(len(self.order), dtype=bool))

    def unsorted(self, values: Numbers) -> Numbers:
        """Bring a column that is sorted by group back into the order of the rows."""
        found = np.empty_like(values)
        found[self.order] = values
        return found

    def as_array(self, column: Values, kind: pa.DataType) -> pa.Array:
        """Return results that are sorted by group as an Arrow array in the order of the rows."""
        values = self.unsorted(column.values).astype(kind.to_pandas_dtype(), copy=False)
        return pa.array(values, kind, mask=None if column.valid.all() else ~self.unsorted(column.valid))
