"""Functions that read numbers from bytes."""

from __future__ import annotations

import struct
from typing import Any

from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.java.letters import upper

_ORDERS = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}


def _unpacked(code: str, value: bytes | None, order: str | None) -> Any:
    # ksqlDB looks at the order before it looks at the bytes: no bytes in an order that is none are an error, too.
    if order is None or upper(order) not in _ORDERS:
        raise ValueError(f"Byte order must be BIG_ENDIAN or LITTLE_ENDIAN, but is {order}")
    if value is None:
        return None
    size = struct.calcsize(f">{code}")
    if len(value) != size:
        raise ValueError(f"Number of bytes must be equal to {size}, but found {len(value)}")
    return struct.unpack(_ORDERS[upper(order)] + code, value)[0]


def _signatures(result: str) -> tuple[str, str]:
    return f"(value BYTES) -> {result}", f"(value BYTES, byteOrder STRING) -> {result}"


@scalar(*_signatures("INT"), nulls=Nulls.BODY, display_name="int_from_bytes")
def int_from_bytes(value: bytes | None, order: str | None = "BIG_ENDIAN") -> int | None:
    """Read an INT from 4 bytes, BIG_ENDIAN unless `byteOrder` is LITTLE_ENDIAN; any other length is an error.

    Example: INT_FROM_BYTES(TO_BYTES('00000102', 'hex')) -> 258
    """
    found: int | None = _unpacked("i", value, order)
    return found


@scalar(*_signatures("BIGINT"), nulls=Nulls.BODY, display_name="bigint_from_bytes")
def bigint_from_bytes(value: bytes | None, order: str | None = "BIG_ENDIAN") -> int | None:
    """Read a BIGINT from 8 bytes, BIG_ENDIAN unless `byteOrder` is LITTLE_ENDIAN; any other length is an error.

    Example: BIGINT_FROM_BYTES(TO_BYTES('0201000000000000', 'hex'), 'LITTLE_ENDIAN') -> 258
    """
    found: int | None = _unpacked("q", value, order)
    return found


@scalar(*_signatures("DOUBLE"), nulls=Nulls.BODY, display_name="double_from_bytes")
def double_from_bytes(value: bytes | None, order: str | None = "BIG_ENDIAN") -> float | None:
    """Read a DOUBLE from 8 bytes, BIG_ENDIAN unless `byteOrder` is LITTLE_ENDIAN; any other length is an error.

    Example: DOUBLE_FROM_BYTES(TO_BYTES('3ff8000000000000', 'hex')) -> 1.5E0
    """
    found: float | None = _unpacked("d", value, order)
    return found
