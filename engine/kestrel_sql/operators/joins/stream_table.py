"""The operator that joins a stream with a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from kestrel_sql.operators.keyed_rows import KeyedRows
from kestrel_sql.operators.operator import Batch, KeyBytes, Results, Scope, State, StateEntry
from kestrel_sql.operators.row_keys import pack_keys, restored_row, split_key, with_window_size
from kestrel_sql.sql.nodes.statements import JoinType

_STREAM, _TABLE = 0, 1


class StreamTableJoin(msgspec.Struct, frozen=True, kw_only=True):
    """Join each stream row (side 0) with the table's current row (side 1), INNER or LEFT (rules O13).

    If the sources have time windows, `window_size_ms` is the window size of the result's key; other windows match if
    both bounds do.
    """

    scope: ClassVar[Scope] = Scope.KEY
    parts: ClassVar[Sequence[int]] = (_STREAM, _TABLE)

    join_type: JoinType
    key_bytes: KeyBytes
    window_size_ms: int | None = None

    def process(self, rows: Batch, state: State) -> Iterator[Results]:
        """Store the rows of the table, which emit nothing, and emit the matches of those of the stream."""
        windows = with_window_size(rows.windows, self.window_size_ms)
        keys = pack_keys(rows.keys(self.key_bytes), windows)
        has_rows = any(side == _TABLE and key is not None for side, key in zip(rows.sides, keys, strict=True))
        table = KeyedRows(state, "rows", keys, made=has_rows)
        inner, results = self.join_type is JoinType.INNER, Results.of(_STREAM, _TABLE)
        streams, matches = results.values[_STREAM], results.values[_TABLE]
        given = zip(rows.sides, keys, table.homes, rows.present, strict=True)
        for at, (side, key, home, present) in enumerate(given):
            if side == _TABLE:
                if key is not None and present:
                    home[key] = at
                elif key is not None:
                    home.pop(key, None)
            elif present:
                match = None if key is None else home.get(key)
                if match is not None or not inner:
                    results.causes.append(at)
                    results.times.append(rows.times[at])
                    streams.append(at)
                    matches.append(match)
        table.settle(rows.values_at)
        yield results.with_windows(windows)

    def entries(self, state: State, windowed: Sequence[bool]) -> Iterator[StateEntry]:
        """Yield the rows of the table."""
        for packed_key, value in state.get("rows", {}).items():
            key, window = split_key(packed_key, windowed[_TABLE])
            yield StateEntry(part="rows", side=_TABLE, key=key, value=restored_row(value), window=window)
