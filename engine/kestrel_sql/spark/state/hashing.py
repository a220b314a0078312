"""Spark's hash of a row (Murmur3, seed 42): gives the page of a key and the partition of a page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kestrel_sql.formats.bulk.codec import buffers_of
from kestrel_sql.spark.types import to_arrow
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, DATE, INTEGER, STRING, TIME, TIMESTAMP

_SEED = 42

HASHABLE = frozenset({BOOLEAN, INTEGER, BIGINT, STRING, DATE, TIME, TIMESTAMP})
"""The types that can be hashed here."""

_LONGS = frozenset({BIGINT, TIMESTAMP})

Words = npt.NDArray[np.uint32]


def hash_rows(arrays: Sequence[pa.Array], columns: Sequence[Column]) -> npt.NDArray[np.int32]:
    """Hash rows as `hash(...)` of Spark SQL does; a NULL does not change the hash.

    Args:
        arrays: the columns of the rows, at least one.
        columns: their names and types, all `HASHABLE`.

    Returns:
        One hash for each row.
    """
    found = np.full(len(arrays[0]), _SEED, dtype=np.uint32)
    for array, column in zip(arrays, columns, strict=True):
        hashed = _of_strings(array, found) if column.type == STRING else _of_numbers(array, column, found)
        found = (
            hashed if not array.null_count else np.where(array.is_valid().to_numpy(zero_copy_only=False), hashed, found)
        )
    return found.view(np.int32)


def hash_row(values: Sequence[object], columns: Sequence[Column]) -> int:
    """Hash one row."""
    arrays = [pa.array([value], to_arrow(column.type)) for value, column in zip(values, columns, strict=True)]
    return int(hash_rows(arrays, columns)[0])


def hash_ints(*values: int) -> int:
    """Hash a row of 32-bit integers."""
    return hash_row(values, [Column("", INTEGER)] * len(values))


def _of_numbers(array: pa.Array, column: Column, seed: Words) -> Words:
    filled = array.cast(pa.int32()) if column.type == BOOLEAN else array
    numbers = (filled.fill_null(0) if filled.null_count else filled).to_numpy()
    if column.type not in _LONGS:
        return _finished(_mixed(seed, numbers.view(np.uint32)), np.uint32(4))
    words = np.ascontiguousarray(numbers).view(np.dtype("<u4")).reshape(-1, 2)
    return _finished(_mixed(_mixed(seed, words[:, 0]), words[:, 1]), np.uint32(8))


def _of_strings(array: pa.StringArray, seed: Words) -> Words:
    data, bounds = buffers_of(array)
    # A 4-byte word can start at any byte. Those that reach beyond the last byte are never used.
    text = np.concatenate([data, np.zeros(4, np.uint8)])
    words = np.ndarray((len(text) - 3,), np.dtype("<u4"), text, strides=(1,))
    starts, lengths = bounds[:-1], np.diff(bounds)
    whole = lengths >> 2
    found = seed.copy()
    for at in range(int(whole.max(initial=0))):
        rows = np.flatnonzero(whole > at)
        found[rows] = _mixed(found[rows], words[starts[rows] + 4 * at])
    # Spark mixes the remaining bytes one by one, as signed numbers.
    signed = text.view(np.int8)
    for at in range(3):
        rows = np.flatnonzero((lengths & 3) > at)
        found[rows] = _mixed(found[rows], signed[starts[rows] + 4 * whole[rows] + at].astype(np.int32).view(np.uint32))
    return _finished(found, lengths.astype(np.uint32))


def _mixed(found: Words, words: Words) -> Words:
    mixed = _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(found ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotated(words: Words, by: int) -> Words:
    return words << np.uint32(by) | words >> np.uint32(32 - by)


def _finished(found: Words, length: Words | np.uint32) -> Words:
    found = found ^ length
    found = (found ^ found >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    found = (found ^ found >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return found ^ found >> np.uint32(16)
