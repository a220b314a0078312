"""The store of a queryable table, which pull queries read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from kestrel_sql.operators.keyed_rows import KeyedRows
from kestrel_sql.operators.operator import Batch, KeyBytes, Results, Scope, State, StateEntry
from kestrel_sql.operators.row_keys import pack_keys, restored_row, split_key


class TableStore(msgspec.Struct, frozen=True, kw_only=True):
    """Keep the latest row of each key with its timestamp, and pass every change on unchanged (docs/adr/0018)."""

    scope: ClassVar[Scope] = Scope.KEY
    parts: ClassVar[Sequence[int]] = (0,)

    key_bytes: KeyBytes
    width: int
    """The number of value columns; in rows stored before CREATE OR REPLACE added columns, those are NULL."""

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Store the rows, delete those of tombstones, and pass all on; null keys are dropped."""
        keys = pack_keys(rows.keys(self.key_bytes), rows.windows)
        stored, results = KeyedRows(state, "rows", keys), Results.of(0)
        passed = results.values[0]
        given = zip(keys, stored.homes, rows.times, rows.present, strict=True)
        for at, (key, home, timestamp, present) in enumerate(given):
            if key is None:
                continue
            if present:
                home[key] = [at, timestamp]
            else:
                home.pop(key, None)
            results.causes.append(at)
            results.times.append(timestamp)
            passed.append(at if present else None)
        stored.settle(rows.values_at, 0)
        yield results.with_windows(rows.windows)

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the rows of the table."""
        for packed_key, (value, timestamp) in state.get("rows", {}).items():
            key, window = split_key(packed_key, windowed[0])
            row = restored_row(value) or ()
            row += (None,) * (self.width - len(row))
            yield StateEntry(part="rows", side=0, key=key, value=row, window=window, timestamp=timestamp)
