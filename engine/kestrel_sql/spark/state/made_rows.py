"""The outputs of the operators of a page with their envelope."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from kestrel_sql.operators.number_columns import Numbers
from kestrel_sql.operators.operator import MOST_OUTPUTS
from kestrel_sql.spark.envelope import ENVELOPE_FIELDS, LOG, struct_column
from kestrel_sql.spark.io.columns import child_ordinals


class Made(msgspec.Struct, frozen=True):
    """Outputs without their envelope.

    Attributes:
        relation: their relation.
        structs: its struct column.
        times: their timestamps (ms).
        positions: the position of each output among those of its input row.
        bounds: start and end (ms) of the window of each output.
    """

    relation: int
    structs: pa.StructArray
    times: Numbers
    positions: Numbers
    bounds: tuple[pa.Array, pa.Array] | None = None


def enveloped(rows: pa.RecordBatch, made: Made, schema: pa.Schema, task: int) -> Iterator[pa.RecordBatch]:
    """Yield outputs with the envelope of `rows`, the row that each comes from, as `Level.made` wants them."""
    size = rows.num_rows
    starts, ends = made.bounds or (pa.nulls(size, pa.int64()), pa.nulls(size, pa.int64()))
    columns: dict[str, pa.Array] = {
        field.name: rows.column(field.name) for field in ENVELOPE_FIELDS if field.name != "log"
    }
    columns |= {
        "rel": pa.array(np.full(size, made.relation, np.int32)),
        "ordinal": child_ordinals(rows.column("ordinal"), made.positions),
        "ts": pa.array(made.times),
        "ws": starts,
        "we": ends,
        "task": pa.array(np.full(size, task, np.int32)),
        "log": pa.ListArray.from_arrays(pa.array(np.zeros(size + 1, np.int32)), pa.array([], LOG.value_type)),
        struct_column(made.relation): made.structs,
    }
    arrays = [columns[field.name] if field.name in columns else pa.nulls(size, field.type) for field in schema]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for start in range(0, size, MOST_OUTPUTS):
        yield batch.slice(start, MOST_OUTPUTS)


def positions_of(causes: Numbers) -> Numbers:
    """The position of each output among those of its row, from the ascending indices of these rows."""
    found: Numbers = np.arange(len(causes)) - np.searchsorted(causes, causes)
    return found
