"""Basics of bulk codecs: how they reject a batch, and Arrow buffers as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any]


class NotPlainError(Exception):
    """A batch needs the row codec: it has a value that bulk codecs do not handle."""


def require(plain: object) -> None:
    """Check a condition that bulk codecs rely on.

    Raises:
        NotPlainError: the condition is false.
    """
    if not plain:
        raise NotPlainError


def buffers_of(data: pa.BinaryArray) -> tuple[Bytes, Numbers]:
    """Return the bytes of a binary or string array, and the offsets of its n values in them (n + 1 numbers)."""
    _, offsets, content = data.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[data.offset : data.offset + len(data) + 1]
    return np.frombuffer(content or b"", dtype=np.uint8), bounds


def text_of(data: pa.BinaryArray) -> pa.StringArray:
    """Convert bytes to strings.

    Raises:
        NotPlainError: the bytes are not UTF-8.
    """
    try:
        return pc.cast(data, pa.string())
    except pa.ArrowInvalid:
        raise NotPlainError from None


def binary_of(content: Bytes, lengths: Numbers) -> pa.BinaryArray:
    """Split `content` into values of these lengths."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(lengths), buffers)


def values_of(array: pa.Array) -> Numbers:
    """Return numbers or booleans as a NumPy array, with 0 or False for NULL."""
    filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def valid_of(array: pa.Array) -> Numbers | None:
    """Return a mask of the values that are not NULL; None if none is NULL."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False)) if array.null_count else None
