"""Reads and writes numbers and strings in the encodings of Avro and protobuf, for many records at once with NumPy.

A reader moves a cursor, which holds one position per record. A writer creates pieces: the bytes of one field for each
record.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.formats.bulk.codec import Bytes, Numbers, binary_of, buffers_of, require

_PADDING = 16
"""Bytes after the last record, so that reading a truncated number stays inside the buffer."""

_MAX_VARINT = 10
"""The maximal number of bytes of a 64-bit varint."""


class Cursor(msgspec.Struct):
    """The current position in each record, and the end of each record."""

    content: Bytes
    at: Numbers
    end: Numbers

    def check(self) -> None:
        """Reject the batch if a position is past the end of its record."""
        require((self.at <= self.end).all())

    def of(self, rows: Numbers) -> Cursor:
        """Return a cursor over some of the records."""
        return Cursor(self.content, self.at[rows], self.end[rows])


def open_records(data: pa.BinaryArray) -> Cursor:
    """Return a cursor at the start of all records."""
    content, bounds = buffers_of(data)
    used = content[bounds[0] : bounds[-1]]
    positions = (bounds - bounds[0]).astype(np.int64)
    return Cursor(np.concatenate([used, np.zeros(_PADDING, dtype=np.uint8)]), positions[:-1].copy(), positions[1:])


def skip_header(cursor: Cursor, header: bytes) -> None:
    """Skip bytes with which every record must start."""
    require((cursor.end - cursor.at >= len(header)).all())
    for byte in header:
        require((cursor.content[cursor.at] == byte).all())
        cursor.at += 1


def read_bytes(cursor: Cursor) -> Bytes:
    """Read the next byte of every record."""
    content: Bytes = cursor.content[cursor.at]
    cursor.at += 1
    cursor.check()
    return content


def read_varints(cursor: Cursor) -> npt.NDArray[np.uint64]:
    """Read the next varint of every record: seven bits per byte, the lowest first."""
    byte = cursor.content[cursor.at]
    cursor.at += 1
    value = (byte & 0x7F).astype(np.uint64)
    (unfinished,) = np.nonzero(byte >= 0x80)
    shift = 7
    while len(unfinished):
        require(shift < 7 * _MAX_VARINT)
        byte = cursor.content[cursor.at[unfinished]]
        require(shift < 63 or (byte <= 1).all())
        cursor.at[unfinished] += 1
        value[unfinished] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        unfinished = unfinished[byte >= 0x80]
        shift += 7
    cursor.check()
    return value


def unzigzag(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Decode zigzag numbers, whose lowest bit is the sign."""
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)


def zigzag(value: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Encode signed numbers; inverse of `unzigzag`."""
    return ((value << 1) ^ (value >> 63)).view(np.uint64)


def read_fixed(cursor: Cursor, layout: str) -> Numbers:
    """Read the next fixed-width number of every record, in the NumPy layout `layout`."""
    kind = np.dtype(layout)
    # Views of all possible positions of a number are free; only those of the cursor are copied.
    windows = np.lib.stride_tricks.sliding_window_view(cursor.content, kind.itemsize)
    start = cursor.at.copy()
    cursor.at += kind.itemsize
    cursor.check()
    return np.ascontiguousarray(windows[start]).view(kind).ravel()


def read_content(cursor: Cursor, lengths: npt.NDArray[np.int64]) -> pa.BinaryArray:
    """Read the next bytes of every record, of the given lengths."""
    start = cursor.at.copy()
    require((lengths >= 0).all() and (lengths <= cursor.end - start).all())
    cursor.at += lengths
    # The offsets delimit wanted bytes and the gaps between them in turn, so every second value is wanted.
    offsets = np.column_stack([start, cursor.at]).astype(np.int32).ravel()
    both = pa.BinaryArray.from_buffers(
        pa.binary(),
        max(len(offsets) - 1, 0),
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cursor.content))],
    )
    return both.take(pa.array(np.arange(0, len(offsets), 2)))


def read_some(cursor: Cursor, wanted: Numbers, read: Callable[[Cursor], pa.Array]) -> pa.Array:
    """Read the next value of some records; NULL in the others, whose positions stay."""
    (rows,) = np.nonzero(wanted)
    part = cursor.of(rows)
    values = read(part)
    cursor.at[rows] = part.at
    source_rows = np.zeros(len(wanted), dtype=np.int32)
    source_rows[rows] = np.arange(len(rows), dtype=np.int32)
    return values.take(pa.array(source_rows, mask=~wanted))


def varint_pieces(value: npt.NDArray[np.uint64], prefix: Bytes, wanted: Numbers, otherwise: int) -> pa.BinaryArray:
    """Write a prefix (one for all or one per record), followed by the number where `wanted`.

    Where it is not wanted, write only the first `otherwise` bytes of the prefix.
    """
    width = 1
    while width < _MAX_VARINT and (value >> np.uint64(7 * width)).any():
        width += 1
    before = prefix.shape[-1]
    lengths = np.full(len(value), before + 1, dtype=np.int32)
    cells = np.empty((len(value), before + width), dtype=np.uint8)
    cells[:, :before] = prefix
    for index in range(width):
        rest = value >> np.uint64(7 * index)
        more = (rest >= 0x80).astype(np.uint8) << 7
        cells[:, before + index] = (rest & np.uint64(0x7F)).astype(np.uint8) | more
        if index:
            lengths += rest > 0
    return _cut(cells, np.where(wanted, lengths, otherwise))


def fixed_pieces(value: Numbers, layout: str, prefix: Bytes, wanted: Numbers, otherwise: int) -> pa.BinaryArray:
    """Write as `varint_pieces` does, but with fixed-width numbers in the NumPy layout `layout`."""
    numbers = np.ascontiguousarray(value.astype(layout))
    before = prefix.shape[-1]
    cells = np.empty((len(value), before + numbers.itemsize), dtype=np.uint8)
    cells[:, :before] = prefix
    cells[:, before:] = numbers.view(np.uint8).reshape(len(value), numbers.itemsize)
    return _cut(cells, np.where(wanted, before + numbers.itemsize, otherwise))


def content_lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the number of bytes of each string or binary value; 0 for NULL."""
    return np.asarray(pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64)


def _cut(cells: Bytes, lengths: Numbers) -> pa.BinaryArray:
    width = cells.shape[1]
    if (lengths == width).all():
        return binary_of(cells.ravel(), lengths)
    return binary_of(cells[np.arange(width) < lengths[:, None]], lengths)
