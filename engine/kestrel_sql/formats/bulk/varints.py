"""Numbers and text as Avro and protobuf write them, read from and written for many records at once with NumPy.

Reading goes by a cursor: the place in each record from which on it was not read yet. Writing makes pieces: for each record the bytes of
one field.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.formats.bulk.codec import Bytes, Numbers, binary_of, buffers_of, require

_PADDING = 16
"""Bytes after the last record, so that a number that is cut off is read without looking."""

_LONGEST = 10
"""How many bytes a number of 64 bits takes at most."""


@dataclass(slots=True)
class Cursor:
    """Where each record was read up to, and where it ends."""

    content: Bytes
    at: Numbers
    end: Numbers

    def check(self) -> None:
        """Refuse records that end before what was read of them."""
        require((self.at <= self.end).all())

    def of(self, rows: Numbers) -> Cursor:
        """The cursor over some of the records."""
        return Cursor(self.content, self.at[rows], self.end[rows])


def open_records(data: pa.BinaryArray) -> Cursor:
    """A cursor at the start of all records."""
    content, bounds = buffers_of(data)
    used = content[bounds[0] : bounds[-1]]
    places = (bounds - bounds[0]).astype(np.int64)
    return Cursor(np.concatenate([used, np.zeros(_PADDING, dtype=np.uint8)]), places[:-1].copy(), places[1:])


def skip_header(cursor: Cursor, header: bytes) -> None:
    """Step over bytes with which all records must begin."""
    require((cursor.end - cursor.at >= len(header)).all())
    for byte in header:
        require((cursor.content[cursor.at] == byte).all())
        cursor.at += 1


def read_bytes(cursor: Cursor) -> Bytes:
    """The next byte of every record."""
    found: Bytes = cursor.content[cursor.at]
    cursor.at += 1
    cursor.check()
    return found


def read_varints(cursor: Cursor) -> npt.NDArray[np.uint64]:
    """The next number of every record, seven bits a byte, the lowest first."""
    byte = cursor.content[cursor.at]
    cursor.at += 1
    value = (byte & 0x7F).astype(np.uint64)
    (open_,) = np.nonzero(byte >= 0x80)
    shift = 7
    while len(open_):
        require(shift < 7 * _LONGEST)
        byte = cursor.content[cursor.at[open_]]
        require(shift < 63 or (byte <= 1).all())
        cursor.at[open_] += 1
        value[open_] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        open_ = open_[byte >= 0x80]
        shift += 7
    cursor.check()
    return value


def unzigzag(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Signed numbers of which the lowest bit is the sign."""
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)


def zigzag(value: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The opposite of `unzigzag`."""
    return ((value << 1) ^ (value >> 63)).view(np.uint64)


def read_fixed(cursor: Cursor, layout: str) -> Numbers:
    """The next number of every record that is written as it stands in memory."""
    kind = np.dtype(layout)
    # Views of all places at which a number could start cost nothing; the wanted ones are copied.
    windows = np.lib.stride_tricks.sliding_window_view(cursor.content, kind.itemsize)
    start = cursor.at.copy()
    cursor.at += kind.itemsize
    cursor.check()
    return np.ascontiguousarray(windows[start]).view(kind).ravel()


def read_content(cursor: Cursor, lengths: npt.NDArray[np.int64]) -> pa.BinaryArray:
    """The next bytes of every record, of these lengths."""
    start = cursor.at.copy()
    require((lengths >= 0).all() and (lengths <= cursor.end - start).all())
    cursor.at += lengths
    # Wanted bytes and the gaps between them take turns; every second value is a wanted one.
    offsets = np.column_stack([start, cursor.at]).astype(np.int32).ravel()
    both = pa.BinaryArray.from_buffers(
        pa.binary(),
        max(len(offsets) - 1, 0),
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cursor.content))],
    )
    return both.take(pa.array(np.arange(0, len(offsets), 2)))


def varint_pieces(value: npt.NDArray[np.uint64], prefix: Bytes, wanted: Numbers, otherwise: int) -> pa.BinaryArray:
    """A prefix (one for all or one each), then the number where it is wanted; elsewhere the first `otherwise` bytes of the prefix."""
    width = 1
    while width < _LONGEST and (value >> np.uint64(7 * width)).any():
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
    """Like `varint_pieces`, with the number as it stands in memory."""
    numbers = np.ascontiguousarray(value.astype(layout))
    before = prefix.shape[-1]
    cells = np.empty((len(value), before + numbers.itemsize), dtype=np.uint8)
    cells[:, :before] = prefix
    cells[:, before:] = numbers.view(np.uint8).reshape(len(value), numbers.itemsize)
    return _cut(cells, np.where(wanted, before + numbers.itemsize, otherwise))


def content_lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """How many bytes each text or binary value has; 0 for NULL."""
    return np.asarray(pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64)


def _cut(cells: Bytes, lengths: Numbers) -> pa.BinaryArray:
    width = cells.shape[1]
    if (lengths == width).all():
        return binary_of(cells.ravel(), lengths)
    return binary_of(cells[np.arange(width) < lengths[:, None]], lengths)
