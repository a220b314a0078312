"""Functions that read numbers from bytes."""

from __future__ import annotations

import struct
from typing import Any

from kestrel_sql.functions.declaration import scalar

_ORDERS = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}


def _unpacked(code: str, value: bytes, order: str) -> Any:
    if order.upper() not in _ORDERS:
        raise ValueError(f"Byte order must be BIG_ENDIAN or LITTLE_ENDIAN, but is {order}")
    size = struct.calcsize(f">{code}")
    if len(value) != size:
        raise ValueError(f"Number of bytes must be equal to {size}, but found {len(value)}")
    return struct.unpack(_ORDERS[order.upper()] + code, value)[0]


def _signatures(result: str) -> tuple[str, str]:
    return f"(value BYTES) -> {result}", f"(value BYTES, byteOrder STRING) -> {result}"


@scalar(*_signatures("INT"), display_name="int_from_bytes")
def int_from_bytes(value: bytes, order: str = "BIG_ENDIAN") -> int:
    """Read an INT from 4 bytes, BIG_ENDIAN unless `byteOrder` is LITTLE_ENDIAN; any other length is an error.

    Example: INT_FROM_BYTES(TO_BYTES('00000102', 'hex')) -> 258
    """
    return int(_unpacked("i", value, order))


@scalar(*_signatures("BIGINT"), display_name="bigint_from_bytes")
def bigint_from_bytes(value: bytes, order: str = "BIG_ENDIAN") -> int:
    """Read a BIGINT from 8 bytes, BIG_ENDIAN unless `byteOrder` is LITTLE_ENDIAN; any other length is an error.

    Example: BIGINT_FROM_BYTES(TO_BYTES('0201000000000000', 'hex'), 'LITTLE_ENDIAN') -> 258
    """
    return int(_unpacked("q", value, order))


@scalar(*_signatures("DOUBLE"), display_name="double_from_bytes")
def double_from_bytes(value: bytes, order: str = "BIG_ENDIAN") -> float:
    """Read a DOUBLE from 8 bytes, BIG_ENDIAN unless `byteOrder` is LITTLE_ENDIAN; any other length is an error.

    Example: DOUBLE_FROM_BYTES(TO_BYTES('3ff8000000000000', 'hex')) -> 1.5E0
    """
    return float(_unpacked("d", value, order))
