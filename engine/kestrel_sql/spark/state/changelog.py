"""Reads a changelog of Spark's RocksDB state stores: what one batch put and removed (docs/adr/0041).

Spark writes it as Java's `DataOutputStream` does, through the block format of lz4-java.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa
import xxhash

from kestrel_sql.errors import CheckpointError
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath

_VERSION = "v2"
"""The version of Spark's changelogs with column families."""

_END, _PUT, _DELETE = 0x00, 0x01, 0x10
"""The kinds of records that the host causes; Spark has others for merged values and ranges."""

_SIZE = struct.Struct(">i")
_VERSION_SIZE = struct.Struct(">H")

_HEAD = struct.Struct("<8sBiii")
"""The head of a block: magic, method and level, packed size, size, and the checksum of what was packed."""

_MAGIC = b"LZ4Block"
_PACKED = 0x20
"""The method of a block that LZ4 made smaller; the bytes of others are the contents."""

_SEED, _MASK = 0x9747B28C, 0x0FFFFFFF
"""What lz4-java starts its checksum with, and the bits of it that it keeps."""

RESTORE = "restore the file from a copy of the checkpoint"


def damaged(file: CheckpointPath, reason: object) -> CheckpointError:
    """Return the error for a file of a checkpoint that cannot be read."""
    return CheckpointError(f"{file} is damaged: {reason}", hint=RESTORE)


class Changelog(msgspec.Struct, frozen=True):
    """What one batch did to a partition of a store.

    Attributes:
        file: where it is.
        places: for each key that the batch changed, where its last value begins and how long it is; None if the batch
            removed the key.
    """

    file: CheckpointPath
    places: Mapping[bytes, tuple[int, int] | None]
    _blocks: _Blocks

    def value(self, key: bytes) -> bytes | None:
        """Return the value of a key that the batch changed; None if the batch removed the key.

        Raises:
            CheckpointError: the file is damaged; names it.
        """
        place = self.places[key]
        return None if place is None else self._blocks.read(*place)


def archived_version(partition: CheckpointPath, version: int) -> int:
    """Return the last version up to this one that has an archive; this one if there is none."""
    names = [entry.name.partition(".") for entry in partition.iterdir()]
    archived = (int(number) for number, _, kind in names if kind == "zip" and number.isdigit())
    return max((number for number in archived if number <= version), default=version)


def read_changelog(partition: CheckpointPath, version: int) -> Changelog:
    """Read what a batch changed; values are unpacked when they are asked for, as a later batch may have others.

    Raises:
        CheckpointError: the file is missing or damaged, or another version of Spark wrote it; names it.
    """
    file = partition / f"{version}.changelog"
    try:
        blocks = _Blocks(file, file.read_bytes())
    except FileNotFoundError as error:
        raise CheckpointError(f"{file} does not exist, nor does {version}.zip", hint=RESTORE) from error
    at = _VERSION_SIZE.unpack(blocks.read(0, 2))[0]
    found = blocks.read(2, at).decode(errors="replace")
    if found != _VERSION:
        raise CheckpointError(
            f"{file} has version {found[:20]} of Spark's changelogs; this release reads {_VERSION}",
            hint="use the release of Kestrel that wrote the checkpoint",
        )
    return Changelog(file, dict(_records(file, blocks, 2 + at)), blocks)


def first_value(partition: CheckpointPath, version: int, size: int) -> bytes | None:
    """Return up to so many bytes of the first value that a batch put; None if it put none, or the file is damaged.

    Spark says what is wrong with a file that it cannot read.
    """
    file = partition / f"{version}.changelog"
    try:
        blocks = _Blocks(file, file.read_bytes())
        begin = 2 + _VERSION_SIZE.unpack(blocks.read(0, 2))[0]
        puts = (place for _, place in _records(file, blocks, begin) if place is not None)
        place = next(puts, None)
        return None if place is None else blocks.read(place[0], min(size, place[1]))
    except (CheckpointError, OSError):
        return None


def _records(file: CheckpointPath, blocks: _Blocks, at: int) -> Iterator[tuple[bytes, tuple[int, int] | None]]:
    while (kind := blocks.read(at, 1)[0]) != _END:
        if kind not in (_PUT, _DELETE):
            raise damaged(file, f"it has a record of kind {kind}, which no operator of Kestrel causes")
        size = _SIZE.unpack(blocks.read(at + 1, 4))[0]
        key = blocks.read(at + 5, size)
        at += 5 + size
        size = _SIZE.unpack(blocks.read(at, 4))[0]
        at += 4
        if (kind == _DELETE) != (size < 0):
            raise damaged(file, f"it has a value of {size} bytes")
        yield key, None if kind == _DELETE else (at, size)
        at += max(size, 0)
    if at + 1 != blocks.size:
        raise damaged(file, "it goes on after its end")


class _Block(msgspec.Struct, frozen=True):
    """A block: where its contents begin in those of the file, where it is in the file, and what its head says."""

    start: int
    at: int
    packed: int
    size: int
    method: int
    check: int


class _Blocks(msgspec.Struct):
    """The contents of a file in lz4-java's blocks, each of which is unpacked for itself."""

    file: CheckpointPath
    data: bytes
    size: int = 0
    _blocks: list[_Block] = []
    _unpacked: tuple[_Block | None, bytes] = (None, b"")

    def __post_init__(self) -> None:
        at = 0
        while True:
            if len(self.data) < at + _HEAD.size:
                raise damaged(self.file, "it ends too early")
            magic, token, packed, size, check = _HEAD.unpack_from(self.data, at)
            if magic != _MAGIC or min(packed, size) < 0:
                raise damaged(self.file, f"at byte {at} no block of LZ4 begins")
            at += _HEAD.size
            if size == 0:
                break
            self._blocks.append(_Block(self.size, at, packed, size, token & 0xF0, check))
            self.size += size
            at += packed
        if at != len(self.data):
            raise damaged(self.file, "it goes on after its end")

    def read(self, at: int, size: int) -> bytes:
        """Return a part of the contents."""
        if size < 0 or at + size > self.size:
            raise damaged(self.file, "it ends too early")
        parts = []
        while size:
            block = self._blocks[bisect_right(self._blocks, at, key=lambda block: block.start) - 1]
            part = self._contents(block)[at - block.start : at - block.start + size]
            parts.append(part)
            at += len(part)
            size -= len(part)
        return b"".join(parts)

    def _contents(self, block: _Block) -> bytes:
        if self._unpacked[0] is not block:
            self._unpacked = (block, self._unpack(block))
        return self._unpacked[1]

    def _unpack(self, block: _Block) -> bytes:
        found = self.data[block.at : block.at + block.packed]
        try:
            if block.method == _PACKED:
                found = pa.decompress(found, block.size, codec="lz4_raw", asbytes=True)
        except (pa.ArrowException, OSError) as error:
            raise damaged(self.file, error) from error
        if len(found) != block.size or xxhash.xxh32_intdigest(found, _SEED) & _MASK != block.check:
            raise damaged(self.file, f"the checksum of its block at byte {block.at} does not fit")
        return found
