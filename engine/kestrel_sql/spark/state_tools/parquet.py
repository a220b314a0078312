"""Exports the state of a query as Parquet, a file for each part of each step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kestrel_sql.arrow.columns import from_rows
from kestrel_sql.arrow.types import arrow_struct
from kestrel_sql.errors import EngineError
from kestrel_sql.operators.operator import Key, StateEntry
from kestrel_sql.spark.state.stored_rows import StoredPage
from kestrel_sql.spark.state_tools.stored_query import StoredQuery, StoredStep
from kestrel_sql.topics.paths import path_part
from kestrel_sql.types.sql_types import BYTES

_CHUNK_ROWS = 10_000
_TIME = pa.timestamp("ms", tz="UTC")

_Part = tuple[str, int | None]
_Row = tuple[StoredPage, StateEntry, Key | None]


def export_query(query: StoredQuery, folder: Path) -> list[tuple[Path, int]]:
    """Write the state of a query; return each file with its number of rows.

    The columns of a file are `task`, `page`, `window_start`, `window_end`, `timestamp`, `key` and `value` (structs with
    the columns of SQL), and `key_bytes`, the key as the state has it.

    Raises:
        CheckpointError: a file or a page of the checkpoint is missing or damaged; names it.
        EngineError: a file cannot be written.
    """
    target = folder / path_part(query.id)
    found = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for step in query.steps:
            found += _export_step(query, step, target)
    except OSError as error:
        raise EngineError(f"{error.filename or target} cannot be written: {error.strerror or error}") from error
    return found


def _export_step(query: StoredQuery, step: StoredStep, target: Path) -> list[tuple[Path, int]]:
    files: dict[_Part, _File] = {}
    restored = step.keys()
    try:
        for page, entry in query.rows(step):
            part = (entry.part, entry.side)
            if part not in files:
                side = "" if entry.side is None or entry.part in ("left", "right") else f"-{entry.side}"
                path = target / path_part(f"{step.name}-{type(step.operator).__name__}-{entry.part}{side}.parquet")
                files[part] = _File(step, entry.side, path)
            key = restored(entry.side, entry.key)
            files[part].add((page, entry, None if key == (entry.key,) and not _is_bytes(step, entry) else key))
    finally:
        for file in files.values():
            file.close()
    return [(file.path, file.rows) for file in files.values()]


def _is_bytes(step: StoredStep, entry: StateEntry) -> bool:
    """Whether a key of bytes is a value and not a key that could not be read."""
    return [column.type for column in step.key_columns(entry.side)] == [BYTES]


class _File:
    def __init__(self, step: StoredStep, side: int | None, path: Path) -> None:
        self.path, self.rows = path, 0
        self._key, self._value = step.key_columns(side), step.value_columns(side)
        self._schema = pa.schema(
            [
                ("task", pa.int32()),
                ("page", pa.int32()),
                ("window_start", _TIME),
                ("window_end", _TIME),
                ("timestamp", _TIME),
                ("key", arrow_struct(self._key)),
                ("value", arrow_struct(self._value)),
                ("key_bytes", pa.binary()),
            ]
        )
        self._writer = pq.ParquetWriter(path, self._schema)
        self._held: list[_Row] = []

    def add(self, row: _Row) -> None:
        self._held.append(row)
        self.rows += 1
        if len(self._held) >= _CHUNK_ROWS:
            self._flush()

    def close(self) -> None:
        if self._held:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        held, self._held = self._held, []
        pages, entries, keys = [row[0] for row in held], [row[1] for row in held], [row[2] for row in held]
        columns: Sequence[pa.Array] = [
            pa.array([page.task for page in pages], pa.int32()),
            pa.array([page.page for page in pages], pa.int32()),
            pa.array([entry.window and entry.window[0] for entry in entries], _TIME),
            pa.array([entry.window and entry.window[1] for entry in entries], _TIME),
            pa.array([entry.timestamp for entry in entries], _TIME),
            from_rows(keys, self._key),
            from_rows([entry.value for entry in entries], self._value),
            pa.array([entry.key for entry in entries], pa.binary()),
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(list(columns), schema=self._schema))
