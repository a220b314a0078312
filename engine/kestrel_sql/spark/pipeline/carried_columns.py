"""Carried columns: envelope columns that the SQL of a stage does not read go past it in blobs (ADR 25).

The first row of a batch holds the blob, and every row its index in the blob. The SQL keeps the order of rows and drops
no row that holds a blob.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.blobs import larger, read_rows, write_rows
from kestrel_sql.spark.io.topics import ENVELOPE_FIELDS, LOG
from kestrel_sql.spark.pipeline.projection_pass import alive
from kestrel_sql.spark.stages.stage import AT, CARRIED, ENVELOPE, LOGGED, PACKED_COLUMNS

_MAX_ROWS = 1 << 14
"""The most rows of one blob, which is a single cell for Spark."""


def packed_columns(columns: Mapping[str, str], carried: Collection[str]) -> dict[str, str]:
    """The columns after `pack_carried`, with their Spark types."""
    return {**{name: kind for name, kind in columns.items() if name not in carried}, **PACKED_COLUMNS}


def pack_carried(carried: Collection[str]) -> Pass:
    """Return the function for `mapInArrow` that moves these envelope columns, one of them `log`, into blobs."""

    def pack(batches: Batches) -> Batches:
        for batch in batches:
            for start in range(0, batch.num_rows, _MAX_ROWS):
                yield _packed(batch.slice(start, _MAX_ROWS), carried)

    return pack


def unpack_carried(carried: Collection[str]) -> Pass:
    """Return the function for `mapInArrow` that restores the columns from the blobs after the SQL of the stage.

    A column `log` of the SQL holds only the entries that the SQL adds.
    """
    schema = pa.schema([field for field in ENVELOPE_FIELDS if field.name in carried])

    def unpack(batches: Batches) -> Batches:
        held = pa.RecordBatch.from_pylist([], schema=schema)
        for batch in larger(batches):
            parts, held = _parts(batch, held, schema)
            yield alive(_unpacked(batch, pa.concat_batches(parts)))

    return unpack


def _packed(batch: pa.RecordBatch, carried: Collection[str]) -> pa.RecordBatch:
    count = batch.num_rows
    kept = {name: batch.column(name) for name in batch.schema.names if name not in carried}
    blob = write_rows(batch.select([name for name in ENVELOPE if name in carried]))
    kept[CARRIED] = pa.concat_arrays([pa.array([blob], pa.binary()), pa.nulls(count - 1, pa.binary())])
    kept[AT] = pa.array(np.arange(count, dtype=np.int32))
    kept[LOGGED] = pc.greater(pc.list_value_length(batch.column("log")), 0)
    return pa.RecordBatch.from_pydict(kept)


def _parts(
    batch: pa.RecordBatch, held: pa.RecordBatch, schema: pa.Schema
) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
    """Return the carried columns of a batch, from the blob before it (`held`) and its own, and the last blob."""
    blobs, indices = batch.column(CARRIED), batch.column(AT)
    starts = pc.indices_nonzero(blobs.is_valid()).to_pylist()
    parts = [_taken(held, indices.slice(0, starts[0] if starts else len(indices)))]
    for start, end in pairwise([*starts, len(indices)]):
        held = read_rows(blobs[start].as_py(), schema)
        parts.append(_taken(held, indices.slice(start, end - start)))
    return parts, held


def _taken(rows: pa.RecordBatch, indices: pa.Array) -> pa.RecordBatch:
    """The rows at ascending indices."""
    if len(indices) and indices[-1].as_py() - indices[0].as_py() == len(indices) - 1:
        return rows.slice(indices[0].as_py(), len(indices))
    return rows.take(indices)


def _unpacked(batch: pa.RecordBatch, carried: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: batch.column(name) for name in batch.schema.names if name not in PACKED_COLUMNS}
    columns.update({name: carried.column(name) for name in carried.schema.names if name != "log"})
    columns["log"] = _log(carried.column("log"), columns.get("log"))
    return pa.RecordBatch.from_pydict(columns)


def _log(carried: pa.ListArray, added: pa.ListArray | None) -> pa.ListArray:
    if added is None or not pc.sum(pc.list_value_length(added)).as_py():
        return carried
    return pa.array(
        [before + behind for before, behind in zip(carried.to_pylist(), added.to_pylist(), strict=True)], LOG
    )
