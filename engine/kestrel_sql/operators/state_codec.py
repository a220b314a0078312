"""An operator's state as bytes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.operator import State

VERSION, PACKED = 1, 2
"""The first byte of every state: plain, or compressed; a change of the layout below takes the next number."""

_FEW_BYTES = 256
"""Up to what size nothing is compressed: a frame of zstd has a head, too."""

_DECIMAL = 1
_BIG_INT = 2


def dump_state(state: Mapping[Any, Any]) -> bytes:
    """Write the state: a version byte, then msgpack with extensions for Decimal and for integers beyond 64 bits.

    Raises:
        QueryError: a value that no checkpoint can hold.
    """
    try:
        packed: bytes = msgpack.packb(state, default=_extend, use_bin_type=True, unicode_errors="surrogatepass")
    except (TypeError, ValueError, OverflowError) as error:
        raise QueryError(f"the state of an operator cannot be stored: {error}") from error
    return bytes([VERSION]) + packed


def pack_state(state: Mapping[Any, Any]) -> bytes:
    """Write a state that is seldom read and often carried along: compressed with zstd.

    Raises:
        QueryError: a value that no checkpoint can hold.
    """
    plain = dump_state(state)
    return plain if len(plain) <= _FEW_BYTES else bytes([PACKED]) + pa.compress(plain[1:], codec="zstd", asbytes=True)


def load_state(stored: bytes) -> State:
    """Read what `dump_state` or `pack_state` wrote; tuples come back as lists.

    Raises:
        QueryError: bytes of another version, or damaged ones.
    """
    if not stored or stored[0] not in (VERSION, PACKED):
        found = str(stored[0]) if stored else "nothing"
        raise QueryError(
            f"the stored state of an operator has version {found}, this release reads {VERSION} and {PACKED}",
            hint="Restart the query with the release that wrote its checkpoint, or from a new checkpoint.",
        )
    try:
        plain = (
            stored[1:] if stored[0] == VERSION else pa.CompressedInputStream(pa.BufferReader(stored[1:]), "zstd").read()
        )
        state = msgpack.unpackb(plain, ext_hook=_restore, strict_map_key=False, unicode_errors="surrogatepass")
    except (msgpack.exceptions.UnpackException, OSError, ValueError, TypeError, ArithmeticError) as error:
        raise QueryError(f"the stored state of an operator is damaged: {error}") from error
    if not isinstance(state, dict):
        raise QueryError(f"the stored state of an operator is damaged: it holds a {type(state).__name__}")
    return state


def _extend(value: object) -> msgpack.ExtType:
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INT, str(value).encode())
    raise TypeError(f"a {type(value).__name__} is not a plain value")


def _restore(code: int, data: bytes) -> Any:
    if code == _DECIMAL:
        return Decimal(data.decode())
    if code == _BIG_INT:
        return int(data)
    raise ValueError(f"extension {code} is not known")
