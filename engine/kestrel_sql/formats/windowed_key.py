"""Keys of windowed topics: the bytes of the key, followed by the bounds of the window (rules F5)."""

from __future__ import annotations

import struct

from kestrel_sql.errors import SerdeError
from kestrel_sql.plan.step import WindowInfo, WindowType

Window = tuple[int, int]
"""Start and end in ms."""


_TIME = struct.Struct(">q")
_SESSION = struct.Struct(">qq")
_LONG_MAX = 2**63 - 1


def window_bytes(window: WindowInfo | None) -> int:
    """Return the number of bytes at the end of a key that hold its window; 0 without a window."""
    if window is None:
        return 0
    return (_SESSION if window.type is WindowType.SESSION else _TIME).size


def split(data: bytes, window: WindowInfo) -> tuple[bytes, Window]:
    """Split a key into its own bytes and its window; the end of a time window is computed from its size.

    Raises:
        SerdeError: the key is too short to hold a window.
    """
    session = window.type is WindowType.SESSION
    bounds = _SESSION if session else _TIME
    if len(data) < bounds.size:
        raise SerdeError(
            f"Error deserializing windowed key: {len(data)} bytes cannot hold a window of {bounds.size} bytes"
        )
    inner, tail = data[: -bounds.size], data[-bounds.size :]
    if session:
        end, start = _SESSION.unpack(tail)
        return inner, (start, end)
    (start,) = _TIME.unpack(tail)
    # Kafka Streams ends the window at the largest long if the end would overflow.
    return inner, (start, min(start + (window.size_ms or 0), _LONG_MAX))


def join(data: bytes, bounds: Window, window: WindowInfo) -> bytes:
    """Append the window to a key.

    Raises:
        SerdeError: a bound is not a 64-bit integer.
    """
    start, end = bounds
    try:
        return data + (_SESSION.pack(end, start) if window.type is WindowType.SESSION else _TIME.pack(start))
    except struct.error as error:
        raise SerdeError(f"Error serializing windowed key: {error}") from error
