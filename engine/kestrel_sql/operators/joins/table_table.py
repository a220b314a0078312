"""The operator that joins two tables on their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from kestrel_sql.operators.joins.sides import SIDES, outer_sides, parts_of
from kestrel_sql.operators.keyed_rows import KeyedRows
from kestrel_sql.operators.operator import Batch, KeyBytes, Ref, Results, Scope, State, StateEntry
from kestrel_sql.operators.row_keys import pack_keys, restored_row, split_key
from kestrel_sql.sql.nodes.statements import JoinType

_LEFT, _RIGHT = 0, 1

_VALUE, _TIME = 0, 1
"""Indexes into a stored row."""


class TableJoin(msgspec.Struct, frozen=True, kw_only=True):
    """Recompute the result of a key at every change of either side, even to an identical row (rules O14)."""

    scope: ClassVar[Scope] = Scope.KEY

    join_type: JoinType
    key_bytes: KeyBytes
    placeholder: bool = False
    """Whether a result ends in a NULL for the key column (rules P6.6)."""

    @property
    def parts(self) -> Sequence[int]:
        """The sides of a result."""
        return parts_of(self.join_type)

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Store the rows and emit the new results of their keys, with those that they replace."""
        keys = pack_keys(rows.keys(self.key_bytes), rows.windows)
        for side in dict.fromkeys(side for side, key in zip(rows.sides, keys, strict=True) if key is not None):
            state.setdefault(SIDES[side], {})
        tables = [KeyedRows(state, name, keys, made=False) for name in SIDES]
        outer, results = outer_sides(self.join_type), Results.of(_LEFT, _RIGHT, old=True)
        given = zip(rows.sides, keys, rows.times, rows.present, rows.has_old, strict=True)
        homes = [table.homes for table in tables]
        for at, (side, key, timestamp, present, has_old) in enumerate(given):
            if key is None:
                continue
            home, other_side = homes[side][at], 1 - side
            replaced = home.pop(key, None)
            old: Ref = ~at if has_old else replaced and replaced[_VALUE]
            new: Ref = None
            if present:
                new = at
                home[key] = [at, timestamp]
            stored = homes[other_side][at].get(key)
            other: Ref = None
            if stored is not None:
                other = stored[_VALUE]
                timestamp = max(timestamp, stored[_TIME])
            elif not outer[side] or (new is None and old is None):
                continue
            results.causes.append(at)
            results.times.append(timestamp)
            # There is no result if the join type needs a row that is missing.
            alone, other_alone = outer[side] or other is not None, outer[other_side]
            is_result, was_result = (
                alone and (other_alone or new is not None),
                alone and (other_alone or old is not None),
            )
            results.values[side].append(new if is_result else None)
            results.values[other_side].append(other if is_result else None)
            results.old[side].append(old if was_result else None)
            results.old[other_side].append(other if was_result else None)
        for table in tables:
            table.settle(rows.values_at, _VALUE)
        yield results.with_windows(rows.windows)

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the rows of both tables."""
        for side, part in enumerate(SIDES):
            for packed_key, (value, timestamp) in state.get(part, {}).items():
                key, window = split_key(packed_key, windowed[side])
                row = restored_row(value)
                yield StateEntry(part=part, side=side, key=key, value=row, window=window, timestamp=timestamp)
