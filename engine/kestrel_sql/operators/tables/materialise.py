"""The store of a table, which adds the previous row to each change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from kestrel_sql.operators.keyed_rows import KeyedRows
from kestrel_sql.operators.operator import Batch, KeyBytes, Results, Scope, State, StateEntry
from kestrel_sql.operators.row_keys import pack_keys, restored_row, split_key


class Materialise(msgspec.Struct, frozen=True, kw_only=True):
    """Keep the latest row of each key, whatever its timestamp (rules O1).

    The operator passes on every record, including tombstones of unknown keys and identical rows, and drops only null
    keys. `rowtime` is the index of the ROWTIME column: in an old row it shows the time of the record that replaces it
    (rules N2).
    """

    scope: ClassVar[Scope] = Scope.KEY
    parts: ClassVar[Sequence[int]] = (0,)

    key_bytes: KeyBytes
    rowtime: int | None = None

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Store the rows and pass them on with those that they replace."""
        keys = pack_keys(rows.keys(self.key_bytes), rows.windows)
        stored = KeyedRows(state, "rows", keys)
        results = Results.of(0, old=True, old_time=self.rowtime)
        values, replaced = results.values[0], results.old[0]
        given = zip(keys, stored.homes, rows.times, rows.present, strict=True)
        for at, (key, home, timestamp, present) in enumerate(given):
            if key is None:
                continue
            old = home.pop(key, None)
            if present:
                home[key] = at
            results.causes.append(at)
            results.times.append(timestamp)
            values.append(at if present else None)
            replaced.append(old)
        stored.settle(rows.values_at)
        yield results.with_windows(rows.windows)

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the rows of the table."""
        for packed_key, value in state.get("rows", {}).items():
            key, window = split_key(packed_key, windowed[0])
            yield StateEntry(part="rows", side=0, key=key, value=restored_row(value), window=window)
