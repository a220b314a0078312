"""Orders and takes the rows of Arrow batches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.arrow.columns import taken

_ABOVE = np.iinfo(np.int64).min
"""Sorts an ordinal before the longer ones that start with it."""


def ordinal_order(ordinals: pa.ListArray) -> npt.NDArray[np.int64]:
    """Return the indices that sort rows by ordinal, stably; an ordinal comes before longer ones that start with it."""
    bounds = ordinals.offsets.to_numpy()
    lengths = np.diff(bounds)
    flat = ordinals.values.to_numpy()
    heads = flat[np.minimum(bounds[:-1], max(len(flat) - 1, 0))] if len(flat) else flat
    if len(lengths) and lengths.min() > 0:
        if (np.diff(heads) > 0).all():
            return np.arange(len(lengths))
        # Rows of several readers are a few sorted runs, which this merges.
        order = np.argsort(heads, kind="stable")
        if (np.diff(heads[order]) > 0).all():
            return order
    depth = int(lengths.max(initial=0))
    steps = [np.where(lengths > at, flat[np.minimum(bounds[:-1] + at, len(flat) - 1)], _ABOVE) for at in range(depth)]
    return np.lexsort(steps[::-1]) if steps else np.arange(len(lengths))


def least(ordinals: pa.ListArray) -> list[int]:
    """The first of some ordinals, at least one, in the order of `ordinal_order`."""
    heads = pc.list_element(ordinals, 0).to_numpy()
    candidates = ordinals.filter(pa.array(heads == heads.min()))
    found: list[int] = candidates[int(ordinal_order(candidates)[0])].as_py()
    return found


def small(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | npt.NDArray[np.uint16]:
    """Return codes (0 or more) as 16-bit numbers if they fit: NumPy sorts those by radix, which is faster."""
    return codes.astype(np.uint16) if codes.max(initial=0) < 1 << 16 else codes


def rows_at(rows: pa.RecordBatch, indices: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows at these indices, without a copy if those are consecutive."""
    if _is_slice(indices):
        return rows.slice(int(indices[0]) if len(indices) else 0, len(indices))
    at = pa.array(indices)
    return pa.RecordBatch.from_arrays([taken(column, at) for column in rows.columns], schema=rows.schema)


def widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema, NULL where the batch has none."""
    present = {column: at for at, column in enumerate(batch.schema.names)}
    arrays = [batch.column(present[f.name]) if f.name in present else pa.nulls(batch.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def values_at(array: pa.Array, indices: npt.NDArray[np.int64]) -> pa.Array:
    """The values at these indices, without a copy if those are consecutive."""
    if _is_slice(indices):
        return array.slice(int(indices[0]) if len(indices) else 0, len(indices))
    return taken(array, pa.array(indices))


def _is_slice(indices: npt.NDArray[np.int64]) -> bool:
    """Whether indices are consecutive."""
    return bool((np.diff(indices) == 1).all())


def child_ordinals(ordinals: pa.ListArray, positions: npt.NDArray[np.int64]) -> pa.ListArray:
    """The ordinals of outputs: those of their rows, each with a position appended."""
    bounds = ordinals.offsets.to_numpy()
    flat = ordinals.values.to_numpy()[bounds[0] : bounds[-1]]
    lengths = np.diff(bounds)
    if len(lengths) and (lengths == lengths[0]).all():
        # Most have the same length, and `insert` takes ten times as long.
        flat = np.column_stack([flat.reshape(-1, lengths[0]), positions]).ravel()
    else:
        flat = np.insert(flat, bounds[1:] - bounds[0], positions)
    offsets = bounds - bounds[0] + np.arange(len(bounds), dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(flat, pa.int64()))


def before(ordinals: pa.ListArray, ordinal: Sequence[int]) -> int:
    """Return how many of these sorted ordinals are less than another ordinal."""
    return bisect_left(range(len(ordinals)), list(ordinal), key=lambda at: ordinals[at].as_py())
