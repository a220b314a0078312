"""Encodes the state of an operator as bytes, and decodes it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from decimal import Decimal
from typing import Any
from zlib import crc32

import msgpack

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.operator import State

VERSION, PACKED, BUCKETED, COLUMNS, STAMPED = 1, 2, 3, 4, 5
"""The first byte of every state: plain, compressed, plain with buckets, plain with groups in columns, or a state of
another layout behind the number of the batch that wrote it.

A new layout takes the next number.
"""

_STAMP = struct.Struct(">Bq")
STAMP_SIZE = _STAMP.size
"""The bytes before the state that follows the number of its batch."""

BUCKETED_FROM = 512
"""From this number on the rows of a state are kept in buckets, and groups of numbers, on Spark, in columns.

`ONLY=groups python -m tests.bench thresholds` measures columns against buckets.
"""

_ROWS_A_BUCKET = 8
"""The fewest rows a bucket has on average; with twice as many they get new buckets."""

_COMPRESS_ABOVE_BYTES = 256
"""Smaller states are not compressed: the header of a zstd frame would cost what compression saves."""

_MAP_HEADER = 5
"""The size of the head of a dict with its length, at most."""

_DECIMAL = 1
_BIG_INT = 2
_BUCKETS = 3
_GROUPS = 4


class BucketedRows(MutableMapping[bytes, Any]):
    """Many rows of a state by key, in buckets that stay encoded until somebody asks for one of their keys.

    So a batch decodes and encodes the rows that share a bucket with one that it needs, and copies all others as bytes.
    """

    def __init__(self, count: int, buckets: list[bytes | dict[bytes, object]]) -> None:
        """Take the number of rows in encoded buckets, and buckets whose number is a power of two."""
        self._encoded, self._buckets, self._mask = count, buckets, len(buckets) - 1

    @classmethod
    def of(cls, rows: Mapping[bytes, object]) -> BucketedRows:
        """Put rows into buckets by the hash of their keys."""
        buckets: list[bytes | dict[bytes, Any]] = [{} for _ in range(1 << (len(rows) // _ROWS_A_BUCKET).bit_length())]
        found = cls(0, buckets)
        for key, row in rows.items():
            found[key] = row
        return found

    @property
    def is_full(self) -> bool:
        """Whether the rows need more buckets."""
        return len(self) >= 2 * _ROWS_A_BUCKET * len(self._buckets)

    def encoded(self) -> msgpack.ExtType:
        """The buckets for msgpack."""
        packer = _packer(_extend)
        buckets = [each if isinstance(each, bytes) else packer.pack(each) for each in self._buckets]
        return msgpack.ExtType(_BUCKETS, packer.pack([len(self), *buckets]))

    def _bucket(self, at: int) -> dict[bytes, object]:
        found = self._buckets[at]
        if isinstance(found, dict):
            return found
        opened = _rows(found)
        self._encoded -= len(opened)
        self._buckets[at] = opened
        return opened

    def homes(self, keys: Sequence[bytes | None]) -> list[dict[Any, Any]]:
        """Return the bucket of each key, to read and to set it there, in one call; no row has the key None."""
        mask = self._mask
        places = [-1 if key is None else crc32(key) & mask for key in keys]
        opened: dict[int, dict[Any, Any]] = {at: {} if at < 0 else self._bucket(at) for at in set(places)}
        return [opened[at] for at in places]

    def get(self, key: bytes | None, default: object = None) -> Any:
        """Return the row of a key, else `default`; no row has the key None, which joins ask for."""
        return default if key is None else self._bucket(crc32(key) & self._mask).get(key, default)

    def pop(self, key: bytes, default: object = None) -> Any:
        """Remove the row of a key and return it, else `default`."""
        return self._bucket(crc32(key) & self._mask).pop(key, default)

    def __getitem__(self, key: bytes) -> object:
        return self._bucket(crc32(key) & self._mask)[key]

    def __setitem__(self, key: bytes, row: object) -> None:
        self._bucket(crc32(key) & self._mask)[key] = row

    def __delitem__(self, key: bytes) -> None:
        del self._bucket(crc32(key) & self._mask)[key]

    def __iter__(self) -> Iterator[bytes]:
        for at in range(len(self._buckets)):
            yield from self._bucket(at)

    def __len__(self) -> int:
        return self._encoded + sum(len(each) for each in self._buckets if isinstance(each, dict))


def homes_of(rows: MutableMapping[bytes, Any], keys: Sequence[bytes | None]) -> list[Any]:
    """Return the dictionary that has, or is to have, the row of each key."""
    found: list[Any] = [rows] * len(keys) if isinstance(rows, dict) else rows.homes(keys)  # type: ignore[attr-defined]
    return found


def bucket_rows(state: State) -> None:
    """Put the rows of a state by key into buckets where they are many, and into more buckets where they have grown."""
    for name, rows in state.items():
        if rows.is_full if isinstance(rows, BucketedRows) else isinstance(rows, dict) and len(rows) >= BUCKETED_FROM:
            state[name] = BucketedRows.of(rows)


def dump_state(state: Mapping[str, object] | Mapping[bytes, object]) -> bytes:
    """Encode a state: a version byte, then msgpack with extensions for Decimal, large integers and buckets.

    Raises:
        QueryError: the state holds a value that cannot be encoded.
    """
    version = VERSION

    def extend(value: object) -> msgpack.ExtType:
        nonlocal version
        if isinstance(value, BucketedRows):
            version = max(version, BUCKETED)
            return value.encoded()
        if not isinstance(value, Decimal | int):
            # Only states on Spark have groups in columns; this process does without Arrow and NumPy.
            from kestrel_sql.operators.group_columns import GroupColumns

            if isinstance(value, GroupColumns):
                version = COLUMNS
                return msgpack.ExtType(_GROUPS, msgpack.packb(value.encoded(BUCKETED_FROM)))
        return _extend(value)

    try:
        packed: bytes = _packer(extend).pack(state)
    except (TypeError, ValueError, OverflowError) as error:
        raise QueryError(f"the state of an operator cannot be encoded: {error}") from error
    return bytes([version]) + packed


def pack_state(state: Mapping[str, object] | Mapping[bytes, object]) -> bytes:
    """Encode a state compressed with zstd, for states that are written often and read rarely.

    Raises:
        QueryError: the state holds a value that cannot be encoded.
    """
    plain = dump_state(state)
    if len(plain) <= _COMPRESS_ABOVE_BYTES:
        return plain
    import pyarrow as pa

    return b"".join((bytes([PACKED]), pa.compress(plain[1:], codec="zstd", asbytes=True)))


def stamped(batch: int, state: bytes) -> bytes:
    """Put the number of the batch that writes it before an encoded state."""
    return _STAMP.pack(STAMPED, batch) + state


def batch_and_state(stored: bytes) -> tuple[int | None, bytes]:
    """Return the number of the batch that wrote a state, None if it has none, and the state without it."""
    if not stored or stored[0] != STAMPED or len(stored) < STAMP_SIZE:
        return None, stored
    return _STAMP.unpack_from(stored)[1], stored[STAMP_SIZE:]


def packed_length(stored: bytes | Mapping[object, object]) -> int:
    """Return how many members a state has, of one that is packed from its first bytes."""
    if not isinstance(stored, bytes):
        return len(stored)
    reader = msgpack.Unpacker()
    reader.feed(_plain(stored, _MAP_HEADER))
    return int(reader.read_map_header())


def _plain(stored: bytes, size: int | None = None) -> bytes:
    """The first bytes of a state without its version, or all of them."""
    if stored[0] != PACKED:
        return stored[1:] if size is None else stored[1 : 1 + size]
    import pyarrow as pa

    plain: bytes = pa.CompressedInputStream(pa.BufferReader(stored[1:]), "zstd").read(size)
    return plain


def load_state(stored: bytes) -> State:
    """Decode what `dump_state` or `pack_state` wrote, with or without a batch; tuples come back as lists.

    Raises:
        QueryError: the bytes have another version or are damaged.
    """
    _, stored = batch_and_state(stored)
    if not stored:
        raise QueryError("the stored state of an operator is damaged: it is empty")
    if stored[0] not in (VERSION, PACKED, BUCKETED, COLUMNS):
        raise QueryError(
            f"the stored state of an operator has version {stored[0]}; this release reads {VERSION} to {STAMPED}",
            hint="restart the query with the release that wrote the checkpoint, or with a new checkpoint",
        )
    try:
        return _rows(_plain(stored))
    except OSError as error:
        raise QueryError(f"the stored state of an operator is damaged: {error}") from error


def _packer(extend: Callable[[object], msgpack.ExtType]) -> msgpack.Packer:
    return msgpack.Packer(default=extend, use_bin_type=True, unicode_errors="surrogatepass")


def _rows(data: bytes) -> dict[Any, object]:
    try:
        found = _unpacked(data)
    except (msgpack.exceptions.UnpackException, ValueError, TypeError, ArithmeticError) as error:
        raise QueryError(f"the stored state of an operator is damaged: {error}") from error
    if not isinstance(found, dict):
        raise QueryError(f"the stored state of an operator is damaged: expected a dict, got {type(found).__name__}")
    return found


def _unpacked(data: bytes) -> Any:
    return msgpack.unpackb(data, ext_hook=_restore, strict_map_key=False, unicode_errors="surrogatepass")


def _extend(value: object) -> msgpack.ExtType:
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INT, str(value).encode())
    raise TypeError(f"a state cannot hold a {type(value).__name__}")


def _restore(code: int, data: bytes) -> object:
    if code == _DECIMAL:
        return Decimal(data.decode())
    if code == _BIG_INT:
        return int(data)
    if code == _BUCKETS:
        count, *buckets = _unpacked(data)
        return BucketedRows(count, buckets)
    if code == _GROUPS:
        from kestrel_sql.operators.group_columns import GroupColumns

        return GroupColumns.decoded(_unpacked(data))
    raise ValueError(f"unknown msgpack extension {code}")
