"""The rows of a page sorted by group, and the part of the state that each belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kestrel_sql.operators.aggregates.by_column import Numbers, Segments, Values
from kestrel_sql.operators.aggregates.groups import Group


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
    groups: list[Group]
    own: list[dict[bytes, Group]]
    """The dictionary that stores each group."""

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
