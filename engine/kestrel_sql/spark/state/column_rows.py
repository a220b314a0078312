"""Rows by ordinal, numbers for keys and the envelope of outputs, for operators that work on whole columns of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kestrel_sql.operators.number_columns import Flags, Numbers
from kestrel_sql.operators.operator import MOST_OUTPUTS
from kestrel_sql.spark.envelope import ENVELOPE_FIELDS, LOG, struct_column
from kestrel_sql.spark.io.columns import child_ordinals, ordinal_order, small

MIN_ROWS = 64
"""From this many rows of a relation on, whole columns are cheaper than single rows."""

MANY_ROWS = 256
"""From this many rows on, sessions, aggregates of tables and EMIT FINAL are cheaper over columns."""


def can_run(rows: pa.RecordBatch) -> bool:
    """Whether there are enough rows, all with a timestamp."""
    return rows.num_rows >= MIN_ROWS and not rows.column("ts").null_count


@dataclass(frozen=True, slots=True)
class Made:
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


def order_of(rows: pa.RecordBatch, usable: Flags) -> Numbers:
    """The indices of the usable rows in the order of their ordinals."""
    order = ordinal_order(rows.column("ordinal"))
    return order[usable[order]]


def positions_of(causes: Numbers) -> Numbers:
    """The position of each output among those of its row, from the ascending indices of these rows."""
    found: Numbers = np.arange(len(causes)) - np.searchsorted(causes, causes)
    return found


def codes_of(columns: Sequence[pa.Array]) -> Numbers:
    """A number for each row of key columns, the same for equal keys only."""
    codes: Numbers = np.zeros(len(columns[0]), np.int64)
    for child in columns:
        encoded = child.dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy()
        if not codes.any():
            codes = own
            continue
        _, codes = np.unique(codes * np.int64(len(encoded.dictionary)) + own, return_inverse=True)
    return small(codes)


def numbers_of(array: pa.Array) -> Numbers:
    """The numbers of a column, 0 for NULL."""
    found: Numbers = (array.fill_null(0) if array.null_count else array).to_numpy()
    return found


def valid(array: pa.Array) -> Flags:
    """Which values are not NULL."""
    if not array.null_count:
        return np.ones(len(array), dtype=bool)
    found: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def present(structs: pa.StructArray, part: str) -> Flags:
    """In which rows of a relation a field of the struct is not NULL."""
    return valid(structs) & valid(structs.field(part))
