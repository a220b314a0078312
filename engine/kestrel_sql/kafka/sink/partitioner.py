"""Java's default partitioner over whole columns of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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


def _bytes(keys: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The bytes of a column, and the start and length of each key in them."""
    filled = pc.fill_null(keys.cast(pa.large_binary()), b"")
    _, offsets, data = filled.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[filled.offset : filled.offset + len(filled) + 1]
    return np.frombuffer(data or b"", dtype=np.uint8), ends[:-1], np.diff(ends)


def _hash(block: npt.NDArray[np.uint8], length: int) -> _Words:
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
