"""Finds, for each row of a page, the latest row of a table that has its key and comes before it.

That is a row of the same batch, or else the one in the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.operators.aggregates.by_column import Segments
from kestrel_sql.operators.number_columns import Flags, Numbers
from kestrel_sql.spark.io.columns import from_rows
from kestrel_sql.spark.state.column_rows import InOrder, valid


@dataclass(frozen=True, slots=True)
class SideRows:
    """The rows of one input.

    Attributes:
        relation: their relation.
        at: their indices among the rows of all inputs.
        fields: the fields of their structs.
    """

    relation: Relation
    at: Numbers
    fields: Mapping[str, pa.StructArray]

    def stored(self, rows: Sequence[Sequence[Any] | None]) -> pa.StructArray:
        """Rows of the state in the form of the field `v`."""
        found = from_rows(rows, self.relation.schema.value)
        return pa.StructArray.from_arrays(found.flatten(), fields=list(self.fields["v"].type), mask=found.is_null())


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """The rows of all inputs in the order of their ordinals, and sorted by key.

    Attributes:
        rows: the rows.
        sides: the rows of each input.
        keys: the key of each row, as columns.
        order: the index of each row sorted by key, in `rows`.
        segments: the rows sorted by key.
        groups: the number of the key of each row.
        names: the serialised key of each group; None for a null key.
    """

    rows: InOrder
    sides: Sequence[SideRows]
    keys: Sequence[pa.Array]
    order: Numbers
    segments: Segments
    groups: Numbers
    names: Sequence[bytes | None]

    @property
    def known(self) -> Flags:
        """Which rows have a key."""
        return np.array([name is not None for name in self.names], dtype=bool)[self.groups]

    def latest(self, side: int) -> Numbers:
        """For each row, the index of the latest row of its key in an input before it; -1 without one."""
        flags = np.zeros(len(self.order), dtype=bool)
        flags[self.sides[side].at] = True
        marked = np.where(flags[self.order], np.arange(len(flags)), -1)
        before = np.concatenate([[-1], np.maximum.accumulate(marked)[:-1]])
        before[before < self.segments.starts[self.segments.groups]] = -1
        found = np.empty_like(before)
        found[self.order] = np.where(before >= 0, self.order[before], -1)
        return found

    def versions(self, side: int, stored: Sequence[Sequence[Any] | None]) -> Versions:
        """The versions of the rows of a table; `stored` has the row of each group in the state."""
        own = self.sides[side]
        parts = [own.stored(stored), own.fields["v"]]
        index = np.empty(len(self.order), np.int64)
        index[own.at] = np.arange(len(own.at)) + len(stored)
        latest = self.latest(side)
        before = np.where(latest >= 0, index[latest], self.groups)
        now = before.copy()
        now[own.at] = index[own.at]
        if "o" in own.fields:
            known = valid(own.fields["o"])
            parts.append(own.fields["o"])
            before[own.at[known]] = np.flatnonzero(known) + len(stored) + len(own.at)
        rows = pa.concat_arrays(parts)
        return Versions(rows, valid(rows), now, before, latest)


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of the rows of a table.

    Attributes:
        rows: all versions.
        present: which of them are rows; the others are tombstones, or there is no row.
        now: for each row of the batch, the index of the version after it.
        before: the index of the version before it.
        latest: the index of the row of the batch that made the version before it; -1 if it is that of the state.
    """

    rows: pa.StructArray
    present: Flags
    now: Numbers
    before: Numbers
    latest: Numbers
