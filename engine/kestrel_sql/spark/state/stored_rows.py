"""The rows of Spark's state stores that hold our pages, as bytes (docs/adr/0035)."""

from __future__ import annotations

import struct

import msgspec

from kestrel_sql.spark.state.changelog import damaged
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath

_ENCODING = b"\x00"
"""The version of Spark's encoding of rows, in front of each key and value."""

_KEY = struct.Struct("<h1sqqq")
"""The number of the column family, the encoding, and an UnsafeRow: NULL flags, task and page."""

_BLOB = struct.Struct("<1sqii")
"""The encoding, and the head of an UnsafeRow of one binary column: NULL flags, size and offset."""

_HEAD = 16
"""The size of the head of that row, without the encoding; the bytes follow, filled up to words of 8 bytes."""


BLOB_AT = _BLOB.size
"""Where the blob begins in the value of a page."""


class StoredPage(msgspec.Struct, frozen=True):
    """The blob of one page."""

    task: int
    page: int
    blob: bytes


def row_key(family: int, page: StoredPage) -> bytes:
    """Return the key of a page in a column family."""
    return _KEY.pack(family, _ENCODING, 0, page.task, page.page)


def row_value(page: StoredPage) -> bytes:
    """Return the value of a page."""
    filled = b"\x00" * (-len(page.blob) % 8)
    return _BLOB.pack(_ENCODING, 0, len(page.blob), _HEAD) + page.blob + filled


def key_of(file: CheckpointPath, key: bytes) -> tuple[int, int, int]:
    """Return the column family, the task and the page of a key.

    Raises:
        CheckpointError: it is none; names the file that has it.
    """
    try:
        family, encoding, _, task, page = _KEY.unpack(key)
    except struct.error as error:
        raise damaged(file, error) from error
    if encoding != _ENCODING:
        raise damaged(file, f"the key of page {page} of task {task} {_NOT_OURS}")
    return family, task, page


def stored_page(file: CheckpointPath, key: bytes, value: bytes) -> StoredPage:
    """Return the page of a key and its value.

    Raises:
        CheckpointError: they are none; names the file that has them.
    """
    _, task, page = key_of(file, key)
    try:
        encoding, _, size, offset = _BLOB.unpack_from(value)
    except struct.error as error:
        raise damaged(file, error) from error
    blob = value[1 + offset : 1 + offset + size]
    if encoding != _ENCODING or len(blob) != size:
        raise damaged(file, f"page {page} of task {task} {_NOT_OURS}")
    return StoredPage(task, page, blob)


_NOT_OURS = "is not in the encoding of Spark 4"
