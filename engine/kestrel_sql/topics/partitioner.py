"""Kafka's default partitioner, which maps a key to a partition."""

from __future__ import annotations

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition, from 0 to `partitions - 1`, of a serialised key: its positive murmur2 hash, modulo."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash with Kafka's seed, as an unsigned number."""
    h = _SEED ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15
