"""Distributes the records of a batch to their writers as blobs, and merges them by ordinal.

There is one blob for each writer and part of a task.

A blob is one row for Spark. Shuffling and sorting single records took longer than writing them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.kafka.sink.partitioner import bare_keys, partitions_of
from kestrel_sql.kafka.sink.transaction import Layout
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.blobs import BLOB, as_one, in_chunks, read_rows, write_rows
from kestrel_sql.spark.io.columns import before, least, ordinal_order, rows_at, small
from kestrel_sql.spark.io.topics import ARROW_OUTPUT

OUTPUTS = f"first ARRAY<BIGINT>, {BLOB}"
"""Rows of `WIRE_OUTPUT` as a blob, and the least of their ordinals."""

DISTRIBUTED = f"slot INT, {OUTPUTS}"
"""The same of one writer (`slot`), with their partitions."""

_OUTPUTS = pa.schema([("first", pa.list_(pa.int64())), ("rows", pa.binary())])
_DISTRIBUTED = pa.schema([("slot", pa.int32()), *_OUTPUTS])
_PARTITIONED = ARROW_OUTPUT.append(pa.field("partition", pa.int32()))

_PIECE_ROWS, _PIECE_BYTES = 1 << 16, 8 << 20
_HELD_ROWS, _HELD_BYTES = 1 << 16, 32 << 20
"""The rows and bytes that are merged at a time, unless the ordinals of blobs overlap more."""

Numbers = npt.NDArray[np.int64]


def distribute_batches(layout: Layout, tails: Mapping[str, int]) -> Pass:
    """Return the function for `mapInArrow` that computes the partition of each record and makes blobs for the writers.

    It reads rows of `WIRE_OUTPUT`, or rows of `DISTRIBUTED` of another layout. `tails` is as in `bare_keys`.
    """

    def distribute(batches: Batches) -> Batches:
        for batch in in_pieces(_opened(batches)):
            yield pa.RecordBatch.from_pylist([*_pieces(batch, layout, tails)], schema=_DISTRIBUTED)

    return distribute


def pack_outputs(batches: Batches) -> Batches:
    """Make rows of `OUTPUTS` of rows of `WIRE_OUTPUT`."""
    for batch in in_pieces(batches):
        rows = pa.RecordBatch.from_arrays(batch.columns, schema=ARROW_OUTPUT)
        made = {"first": least(rows.column("ordinal")), "rows": write_rows(rows)}
        yield pa.RecordBatch.from_pylist([made], schema=_OUTPUTS)


def merged_outputs(batches: Batches) -> Batches:
    """Return the rows of `WIRE_OUTPUT` in rows of `OUTPUTS`, sorted by ordinal."""
    return _merged(sorted(_blobs_in(batches)), ARROW_OUTPUT)


def in_pieces(batches: Batches) -> Batches:
    """Concatenate the batches of a task, as far as it writes them at once."""
    return in_chunks(batches, _PIECE_ROWS, _PIECE_BYTES)


def merged(batches: Batches) -> Batches:
    """Return the records of one writer sorted by ordinal; `batches` are rows of `DISTRIBUTED` sorted by `first`."""
    return _merged(_blobs_in(batches), _PARTITIONED)


def _merged(blobs: Iterable[tuple[Sequence[int], bytes]], schema: pa.Schema) -> Batches:
    held: list[pa.RecordBatch] = []
    most_rows, most_bytes = _HELD_ROWS, _HELD_BYTES
    for first, blob in blobs:
        if sum(map(len, held)) >= most_rows or sum(each.nbytes for each in held) >= most_bytes:
            rows = _in_order(held)
            done = before(rows.column("ordinal"), first)
            yield rows.slice(0, done)
            held = [rows.slice(done)]
            # With more overlap the held rows would be sorted again for each blob, so the limit grows.
            most_rows, most_bytes = max(_HELD_ROWS, 2 * len(held[0])), max(_HELD_BYTES, 2 * held[0].nbytes)
        held.append(read_rows(blob, schema))
    if held:
        yield _in_order(held)


def _opened(batches: Batches) -> Batches:
    for batch in batches:
        if batch.schema.names == _DISTRIBUTED.names:
            yield from (read_rows(blob, _PARTITIONED).select(ARROW_OUTPUT.names) for _, blob in _blobs_in([batch]))
        else:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=ARROW_OUTPUT)


def with_partitions(
    batch: pa.RecordBatch, layout: Layout, tails: Mapping[str, int], slot: int | None = None
) -> pa.RecordBatch:
    """Add the column `partition` to rows of `WIRE_OUTPUT`.

    Args:
        batch: the rows.
        layout: the partitions of the topics.
        tails: as in `bare_keys`.
        slot: what writes the rows, if no other does: it has the partitions whose numbers differ from its own by a
            multiple of the slots, and records without a key go to these in turn.
    """
    topics = batch.column("topic")
    keys = bare_keys(topics, batch.column("key"), tails)
    turns = pc.list_element(batch.column("ordinal"), 0)
    if slot is not None:
        least = min((layout.partitions.get(topic, 1) for topic in topics.unique().to_pylist()), default=1)
        own = max(1, (least - slot + layout.slots - 1) // layout.slots)
        turns = pa.array(slot + layout.slots * (pc.fill_null(turns, 0).to_numpy() % own))
    partitions = partitions_of(topics, keys, turns, layout.partitions)
    return pa.RecordBatch.from_arrays([*batch.columns, partitions], schema=_PARTITIONED)


def _pieces(batch: pa.RecordBatch, layout: Layout, tails: Mapping[str, int]) -> Iterator[dict[str, object]]:
    partitioned = with_partitions(batch, layout, tails)
    slots = _slots(batch.column("topic"), partitioned.column("partition"), layout.slots)
    order = np.argsort(small(slots), kind="stable")
    rows = rows_at(partitioned, order)
    sorted_slots = slots[order]
    bounds = [0, *(np.flatnonzero(np.diff(sorted_slots)) + 1).tolist(), len(order)]
    for start, end in pairwise(bounds):
        own = rows.slice(start, end - start)
        yield {"slot": int(sorted_slots[start]), "first": least(own.column("ordinal")), "rows": write_rows(own)}


def _slots(topics: pa.Array, partitions: pa.Array, slots: int) -> Numbers:
    """The writer of each topic-partition; consecutive partitions of a topic have different writers."""
    coded = topics.dictionary_encode()
    first = np.array(
        [0 if topic is None else crc32(topic.encode()) for topic in [*coded.dictionary.to_pylist(), None]],
        dtype=np.int64,
    )
    of_topic = first[pc.fill_null(coded.indices, len(first) - 1).to_numpy(zero_copy_only=False)]
    found: Numbers = (of_topic + pc.fill_null(partitions, 0).to_numpy(zero_copy_only=False)) % slots
    return found


def _blobs_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Sequence[int], bytes]]:
    for batch in batches:
        yield from zip(batch.column("first").to_pylist(), batch.column("rows").to_pylist(), strict=True)


def _in_order(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    rows = as_one(batches)
    return rows_at(rows, ordinal_order(rows.column("ordinal")))
