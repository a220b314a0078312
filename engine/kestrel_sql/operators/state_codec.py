"""Encodes the state of an operator as bytes, and decodes it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.operator import State

VERSION, PACKED = 1, 2
"""The first byte of every state: plain or compressed; a new layout takes the next number."""

_COMPRESS_ABOVE_BYTES = 256
"""Smaller states are not compressed: the header of a zstd frame would cost what compression saves."""

_DECIMAL = 1
_BIG_INT = 2


def dump_state(state: Mapping[Any, Any]) -> bytes:
    """Encode a state: a version byte, then msgpack with extensions for Decimal and for integers beyond 64 bits.

    Raises:
        QueryError: the state holds a value that cannot be encoded.
    """
    try:
        packed: bytes = msgpack.packb(state, default=_extend, use_bin_type=True, unicode_errors="surrogatepass")
    except (TypeError, ValueError, OverflowError) as error:
        raise QueryError(f"the state of an operator cannot be encoded: {error}") from error
    return bytes([VERSION]) + packed


def pack_state(state: Mapping[Any, Any]) -> bytes:
    """Encode a state compressed with zstd, for states that are written often and read rarely.

    Raises:
        QueryError: the state holds a value that cannot be encoded.
    """
    plain = dump_state(state)
    return (
        plain
        if len(plain) <= _COMPRESS_ABOVE_BYTES
        else bytes([PACKED]) + pa.compress(plain[1:], codec="zstd", asbytes=True)
    )


def load_state(stored: bytes) -> State:
    """Decode what `dump_state` or `pack_state` wrote; tuples come back as lists.

    Raises:
        QueryError: the bytes have another version or are damaged.
    """
    if not stored:
        raise QueryError("the stored state of an operator is damaged: it is empty")
    if stored[0] not in (VERSION, PACKED):
        raise QueryError(
            f"the stored state of an operator has version {stored[0]}; this release reads {VERSION} and {PACKED}",
            hint="restart the query with the release that wrote the checkpoint, or with a new checkpoint",
        )
    try:
        plain = (
            stored[1:] if stored[0] == VERSION else pa.CompressedInputStream(pa.BufferReader(stored[1:]), "zstd").read()
        )
        state = msgpack.unpackb(plain, ext_hook=_restore, strict_map_key=False, unicode_errors="surrogatepass")
    except (msgpack.exceptions.UnpackException, OSError, ValueError, TypeError, ArithmeticError) as error:
        raise QueryError(f"the stored state of an operator is damaged: {error}") from error
    if not isinstance(state, dict):
        raise QueryError(f"the stored state of an operator is damaged: expected a dict, got {type(state).__name__}")
    return state


def _extend(value: object) -> msgpack.ExtType:
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INT, str(value).encode())
    raise TypeError(f"a state cannot hold a {type(value).__name__}")


def _restore(code: int, data: bytes) -> Any:
    if code == _DECIMAL:
        return Decimal(data.decode())
    if code == _BIG_INT:
        return int(data)
    raise ValueError(f"unknown msgpack extension {code}")
