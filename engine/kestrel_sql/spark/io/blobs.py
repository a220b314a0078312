"""Blobs: many rows as one binary cell, because Spark's cost is per row and cell; and batches of a good size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

BLOB = "rows BINARY"
"""The last column of rows that hold blobs."""

_CHUNK_ROWS = 1 << 17
_CHUNK_BYTES = 64 << 20
_LARGER_ROWS = 1 << 14
_LARGER_BYTES = 16 << 20

_COLUMN_BYTES = 2 << 10
"""From this many bytes a column on, blobs are compressed: it costs a call for each column of each query of a group."""

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_IN_THIS_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


def are_blobs(schema: str) -> bool:
    """Whether rows with this Spark schema hold blobs, so that there are few of them."""
    return schema.endswith(BLOB)


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
        # The bytes of a slice would take longer to count than they are worth.
        rows, size = rows + batch.num_rows, size + batch.get_total_buffer_size()
        if rows >= most_rows or size >= most_bytes:
            yield as_one(held)
            held, rows, size = [], 0, 0
    if held:
        yield as_one(held)


def as_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches, at least one; Arrow copies a single one, too."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def larger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Concatenate the small batches that Spark makes; each costs about 1 ms in Python besides its rows."""
    return in_chunks(batches, _LARGER_ROWS, _LARGER_BYTES)


def write_rows(batch: pa.RecordBatch) -> bytes:
    """Serialise rows: large batches as an Arrow stream of compressed columns, small ones without their schema.

    A byte of a blob is copied a dozen times on its way through the JVM, and the columns of an envelope hardly differ
    from row to row: to compress them took a sixth of the processor time off a join (ADR 23).
    """
    if batch.nbytes < _COLUMN_BYTES * batch.num_columns:
        small: bytes = batch.serialize().to_pybytes()
        return small
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as stream:
        stream.write_batch(batch)
    large: bytes = sink.getvalue().to_pybytes()
    return large


def read_rows(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Deserialise rows that `write_rows` serialised."""
    message = pa.ipc.read_message(data)
    if message.type == "record batch":
        return pa.ipc.read_record_batch(message, schema)
    # Arrow's own threads cost more than they help: as many workers as cores do the same at this moment.
    return pa.ipc.open_stream(data, options=_IN_THIS_THREAD).read_next_batch()
