"""Blobs: many rows as one binary cell, because Spark's cost is per row and cell; and batches of a good size."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

_CHUNK_ROWS = 1 << 17
_CHUNK_BYTES = 64 << 20
_LARGER_ROWS = 1 << 14
_LARGER_BYTES = 16 << 20


def in_chunks(
    batches: Iterator[pa.RecordBatch], most_rows: int = _CHUNK_ROWS, most_bytes: int = _CHUNK_BYTES
) -> Iterator[pa.RecordBatch]:
    """Concatenate small batches into larger ones of limited size; empty batches are dropped."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield held[0] if len(held) == 1 else pa.concat_batches(held)


def larger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Concatenate the small batches that Spark makes; each costs about 1 ms in Python besides its rows."""
    return in_chunks(batches, _LARGER_ROWS, _LARGER_BYTES)


def write_rows(batch: pa.RecordBatch) -> bytes:
    """Serialise rows without their schema."""
    data: bytes = batch.serialize().to_pybytes()
    return data


def read_rows(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Deserialise rows that `write_rows` serialised."""
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)
