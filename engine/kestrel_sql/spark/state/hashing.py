"""Spark's hash of a row (Murmur3, seed 42): gives the page of a key and the partition of a page."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kestrel_sql.arrow.columns import array_of, to_list
from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.formats.bulk.codec import buffers_of
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.carried import is_carried
from kestrel_sql.types.schema import Column

_SEED = 42

_INTS = frozenset({t.BOOLEAN, t.INTEGER, t.DATE, t.TIME})
_LONGS = frozenset({t.BIGINT, t.TIMESTAMP, t.DOUBLE})
_BYTES = frozenset({t.STRING, t.BYTES})

_LONG_DIGITS = 18
"""The digits of the widest DECIMAL that Spark hashes as a 64-bit integer."""

Words = npt.NDArray[np.uint32]


def hash_rows(arrays: Sequence[pa.Array], columns: Sequence[Column]) -> npt.NDArray[np.int32]:
    """Hash rows as `hash(...)` of Spark SQL does; a NULL does not change the hash.

    Args:
        arrays: the columns of the rows, at least one.
        columns: their names and types, without a MAP.

    Returns:
        One hash for each row.
    """
    found = np.full(len(arrays[0]), _SEED, dtype=np.uint32)
    for array, column in zip(arrays, columns, strict=True):
        hashed = _hashed(array, column.type, found)
        found = (
            hashed if not array.null_count else np.where(array.is_valid().to_numpy(zero_copy_only=False), hashed, found)
        )
    return found.view(np.int32)


def _hashed(array: pa.Array, kind: t.SqlType, seed: Words) -> Words:
    if kind in _BYTES:
        return _of_bytes(array, seed)
    if kind in _INTS:
        numbers = array.cast(pa.int32()) if kind == t.BOOLEAN else array
        return _of_ints(numbers.fill_null(0).to_numpy(), seed)
    if kind in _LONGS:
        return _of_longs(array.fill_null(0).to_numpy(), seed)
    pairs = zip(to_list(array), seed.tolist(), strict=True)
    return np.array([_of_value(value, kind, each) for value, each in pairs], dtype=np.uint32)


def can_hash(columns: Sequence[Column]) -> bool:
    """Whether Spark hashes keys of these columns: none contains a MAP, as only those of plans of old releases do."""
    return not any(t.contains(column.type, lambda part: isinstance(part, t.Map)) for column in columns)


def hash_row(values: Sequence[object], columns: Sequence[Column]) -> int:
    """Hash one row."""
    arrays = [array_of([value], to_arrow(column.type)) for value, column in zip(values, columns, strict=True)]
    return int(hash_rows(arrays, columns)[0])


def _of_ints(numbers: npt.NDArray[np.int32], seed: Words) -> Words:
    return _finished(_mixed(seed, np.ascontiguousarray(numbers).view(np.uint32)), np.uint32(4))


def _of_longs(numbers: npt.NDArray[np.int64] | npt.NDArray[np.float64], seed: Words) -> Words:
    if numbers.dtype == np.float64:
        # One bit pattern for both zeros, and one for all NaN.
        numbers = np.where(numbers == 0, 0.0, np.where(np.isnan(numbers), np.nan, numbers))
    words = np.ascontiguousarray(numbers).view(np.dtype("<u4")).reshape(-1, 2)
    return _finished(_mixed(_mixed(seed, words[:, 0]), words[:, 1]), np.uint32(8))


def _of_value(value: Any, kind: t.SqlType, seed: int) -> int:
    """Hash a value of any type: the items of an ARRAY and the fields of a STRUCT one after the other."""
    if value is None:
        return seed
    match kind:
        case t.Array(item):
            for each in value:
                seed = _of_value(each, item, seed)
            return seed
        case t.Struct(fields):
            for each in fields:
                seed = _of_value(value[each.name], each.type, seed)
            return seed
        case t.Decimal() if is_carried(kind):
            return _of_value(f"{value:f}", t.STRING, seed)
        case t.Decimal(precision, scale):
            unscaled = int(value.scaleb(scale, decimal.Context(prec=precision + scale + 1)))
            if precision <= _LONG_DIGITS:
                return _of_value(unscaled, t.BIGINT, seed)
            return _of_value(unscaled.to_bytes(_java_length(unscaled), "big", signed=True), t.BYTES, seed)
        case _:
            return int(_hashed(array_of([value], to_arrow(kind)), kind, np.array([seed], dtype=np.uint32))[0])


def _java_length(number: int) -> int:
    """The number of bytes of `BigInteger.toByteArray`."""
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def _of_bytes(array: pa.StringArray | pa.BinaryArray, seed: Words) -> Words:
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
