"""What bulk codecs share: how they say no, and bytes as NumPy sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any]

BulkDecoder = Callable[[pa.BinaryArray], list[pa.Array]]
"""Bytes of records, none of them null, to an array per column.

Raises:
    NotPlainError: a record among them needs the codec of single records.
"""

BulkEncoder = Callable[[Sequence[pa.Array]], pa.BinaryArray]
"""An array per column to the bytes of records; NULL where the record is a tombstone. Raises as `BulkDecoder` does."""


class NotPlainError(Exception):
    """A batch holds something that only the codec of single records knows how to judge."""


def require(plain: object) -> None:
    """Go on if `plain` is true.

    Raises:
        NotPlainError: it is not.
    """
    if not plain:
        raise NotPlainError


def buffers_of(data: pa.BinaryArray) -> tuple[Bytes, Numbers]:
    """The bytes of a binary or string array and the offsets of its values in them, one more than there are values."""
    _, offsets, content = data.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[data.offset : data.offset + len(data) + 1]
    return np.frombuffer(content or b"", dtype=np.uint8), bounds


def text_of(data: pa.BinaryArray) -> pa.StringArray:
    """Bytes as text.

    Raises:
        NotPlainError: they are not UTF-8.
    """
    try:
        return pc.cast(data, pa.string())
    except pa.ArrowInvalid:
        raise NotPlainError from None


def binary_of(content: Bytes, lengths: Numbers) -> pa.BinaryArray:
    """Cut `content` into values of these lengths."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(lengths), buffers)


def values_of(array: pa.Array) -> Numbers:
    """Numbers or booleans as NumPy has them, 0 or false where there is NULL."""
    filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def valid_of(array: pa.Array) -> Numbers | None:
    """Which values are not NULL; None if all of them."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False)) if array.null_count else None
