"""What the SQL of a stage does not look at: it goes past Spark in blobs, one for many rows, instead of cell by cell (ADR 25).

The first row of a batch carries the blob, every row its place in it. SQL keeps the order of rows, and the row with the blob.
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
from kestrel_sql.spark.stages.stage import AT, CARGO, ENVELOPE, LOADED, LOGGED

_MOST_ROWS = 1 << 14
"""How many rows a blob is for at most: it is one cell of Spark's."""


def loaded_columns(columns: Mapping[str, str], carried: Collection[str]) -> dict[str, str]:
    """The columns behind `load_cargo`, with their Spark types."""
    return {**{name: kind for name, kind in columns.items() if name not in carried}, **LOADED}


def load_cargo(carried: Collection[str]) -> Pass:
    """Make the function for `mapInArrow` that puts these columns of the envelope, among them `log`, into blobs."""

    def load(batches: Batches) -> Batches:
        for batch in batches:
            for start in range(0, batch.num_rows, _MOST_ROWS):
                yield _loaded(batch.slice(start, _MOST_ROWS), carried)

    return load


def unload_cargo(carried: Collection[str]) -> Pass:
    """Make the function for `mapInArrow` that takes the columns out of the blobs again, behind the SQL of the stage.

    What the SQL gives as `log` are entries that it adds.
    """
    schema = pa.schema([field for field in ENVELOPE_FIELDS if field.name in carried])

    def unload(batches: Batches) -> Batches:
        held = pa.RecordBatch.from_pylist([], schema=schema)
        for batch in larger(batches):
            parts, held = _parts(batch, held, schema)
            yield alive(_unloaded(batch, pa.concat_batches(parts)))

    return unload


def _loaded(batch: pa.RecordBatch, carried: Collection[str]) -> pa.RecordBatch:
    count = batch.num_rows
    kept = {name: batch.column(name) for name in batch.schema.names if name not in carried}
    blob = write_rows(batch.select([name for name in ENVELOPE if name in carried]))
    kept[CARGO] = pa.concat_arrays([pa.array([blob], pa.binary()), pa.nulls(count - 1, pa.binary())])
    kept[AT] = pa.array(np.arange(count, dtype=np.int32))
    kept[LOGGED] = pc.greater(pc.list_value_length(batch.column("log")), 0)
    return pa.RecordBatch.from_pydict(kept)


def _parts(
    batch: pa.RecordBatch, held: pa.RecordBatch, schema: pa.Schema
) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
    """What belongs to the rows of a batch out of the blob that came before it and those in it, and the last of them."""
    blobs, places = batch.column(CARGO), batch.column(AT)
    starts = pc.indices_nonzero(blobs.is_valid()).to_pylist()
    parts = [_taken(held, places.slice(0, starts[0] if starts else len(places)))]
    for start, end in pairwise([*starts, len(places)]):
        held = read_rows(blobs[start].as_py(), schema)
        parts.append(_taken(held, places.slice(start, end - start)))
    return parts, held


def _taken(rows: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
    """Rows at rising places."""
    if len(places) and places[-1].as_py() - places[0].as_py() == len(places) - 1:
        return rows.slice(places[0].as_py(), len(places))
    return rows.take(places)


def _unloaded(batch: pa.RecordBatch, cargo: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: batch.column(name) for name in batch.schema.names if name not in LOADED}
    columns.update({name: cargo.column(name) for name in cargo.schema.names if name != "log"})
    columns["log"] = _log(cargo.column("log"), columns.get("log"))
    return pa.RecordBatch.from_pydict(columns)


def _log(carried: pa.ListArray, added: pa.ListArray | None) -> pa.ListArray:
    if added is None or not pc.sum(pc.list_value_length(added)).as_py():
        return carried
    return pa.array(
        [before + behind for before, behind in zip(carried.to_pylist(), added.to_pylist(), strict=True)], LOG
    )
