"""Spark's own hash of a row (Murmur3, seed 42), so that a key's page and a page's partition are known without a job."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

from engine.types.schema import Column
from engine.types.sql_types import BIGINT, BOOLEAN, DATE, INTEGER, STRING, TIME, TIMESTAMP

_MASK = 0xFFFFFFFF
_SEED = 42

HASHABLE = frozenset({BOOLEAN, INTEGER, BIGINT, STRING, DATE, TIME, TIMESTAMP})
"""The types whose hash is known here."""

_LONGS = frozenset({BIGINT, TIMESTAMP})


def hash_row(values: Sequence[object], columns: Sequence[Column]) -> int:
    """Hash a row as `hash(…)` of Spark SQL does; columns are of `HASHABLE` types.

    A NULL leaves the hash as it is.
    """
    found = _SEED
    for value, column in zip(values, columns, strict=True):
        if isinstance(value, str):
            found = _of_bytes(value.encode(), found)
        elif isinstance(value, int):
            found = _of_bytes(pack("<q" if column.type in _LONGS else "<i", value), found)
    return found - (1 << 32) if found >> 31 else found


def hash_ints(*values: int) -> int:
    """Hash 32-bit integers as a row of them."""
    return hash_row(values, [Column("", INTEGER)] * len(values))


def _of_bytes(data: bytes, seed: int) -> int:
    whole = len(data) & ~3
    found = seed
    for at in range(0, whole, 4):
        found = _mixed(found, int.from_bytes(data[at : at + 4], "little"))
    # Spark mixes the bytes left over one by one, as signed numbers.
    for byte in data[whole:]:
        found = _mixed(found, byte - 256 if byte > 127 else byte)
    return _finished(found, len(data))


def _mixed(found: int, word: int) -> int:
    word = _rotated((word & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_rotated(found ^ word, 13) * 5 + 0xE6546B64) & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _MASK


def _finished(found: int, length: int) -> int:
    found ^= length
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    return found ^ found >> 16
