"""Distributes the records of a batch to their writers as blobs, and merges them by ordinal.

There is one blob for each writer and part of a task.

A blob is one row for Spark. Shuffling and sorting single records took longer than writing them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.kafka.sink.transaction import Layout
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.blobs import BLOB, as_one, in_chunks, read_rows, write_rows
from kestrel_sql.spark.io.columns import before, least, ordinal_order, rows_at, small
from kestrel_sql.spark.io.topics import ARROW_OUTPUT

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)

_Words = np.ndarray[Any, np.dtype[np.uint32]]


def partitions_of(topics: pa.Array, keys: pa.Array, feeds: pa.Array, counts: Mapping[str, int]) -> pa.Array:
    """Return the partition of each record: by the murmur2 hash of the key, or round-robin by `feeds` without a key.

    Java chooses a random partition for a record without a key. Here a replayed batch must go to the same partitions
    again.

    Args:
        topics: the topic of each record.
        keys: the key of each record.
        feeds: the number of the input record of each record.
        counts: the number of partitions by topic.

    Returns:
        INT partitions, null for a topic that is not in `counts`.
    """
    partitions = pc.index_in(topics, value_set=pa.array(counts.keys(), pa.string()))
    known = np.array([*counts.values(), 1], dtype=np.uint32)
    count = known[pc.fill_null(partitions, len(counts)).to_numpy(zero_copy_only=False)]
    hashed = murmur2_all(keys) & _POSITIVE
    turns = (pc.fill_null(feeds, 0).to_numpy(zero_copy_only=False) & 0x7FFFFFFF).astype(np.uint32)
    chosen = np.where(keys.is_null().to_numpy(zero_copy_only=False), turns, hashed) % count
    return pa.array(chosen.astype(np.int32), mask=partitions.is_null().to_numpy(zero_copy_only=False))


def bare_keys(topics: pa.Array, keys: pa.Array, tails: Mapping[str, int]) -> pa.Array:
    """Return the keys without the window at their end, whose length in bytes `tails` has by topic.

    Kafka Streams partitions windowed records by their bare key, so that all windows of a key are in one partition.
    """
    for tail in sorted({*tails.values()} - {0}):
        names = pa.array([topic for topic, length in tails.items() if length == tail], pa.string())
        keys = pc.if_else(pc.is_in(topics, value_set=names), pc.binary_slice(keys, 0, -tail), keys)
    return keys


def murmur2_all(keys: pa.Array) -> _Words:
    """Return the murmur2 hash of each key with Kafka's seed, unsigned; a null key counts as empty.

    Keys with the same length are hashed together.
    """
    data, starts, lengths = _bytes(keys)
    result = np.empty(len(keys), dtype=np.uint32)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        block = data[starts[rows][:, None] + np.arange(length)]
        result[rows] = _hash(block, int(length))
    return result


def _bytes(keys: pa.Array) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The bytes of a column, and the start and length of each key in them."""
    filled = pc.fill_null(keys.cast(pa.large_binary()), b"")
    _, offsets, data = filled.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[filled.offset : filled.offset + len(filled) + 1]
    return np.frombuffer(data or b"", dtype=np.uint8), ends[:-1], np.diff(ends)


def _hash(block: np.ndarray[Any, np.dtype[np.uint8]], length: int) -> _Words:
    """Hash rows of `length` bytes each; unsigned arithmetic wraps around as in Java."""
    whole = length & ~3
    h: _Words = np.full(len(block), _SEED ^ np.uint32(length), dtype=np.uint32)
    words = np.ascontiguousarray(block[:, :whole]).view("<u4")
    for at in range(whole // 4):
        k = words[:, at] * _M
        k = (k ^ (k >> np.uint32(24))) * _M
        h = (h * _M) ^ k
    for at in reversed(range(whole, length)):
        h ^= block[:, at].astype(np.uint32) << np.uint32(8 * (at - whole))
    if whole < length:
        h *= _M
    h = (h ^ (h >> np.uint32(13))) * _M
    result: _Words = h ^ (h >> np.uint32(15))
    return result


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
