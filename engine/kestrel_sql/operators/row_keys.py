"""Packs a key and its window into the bytes that identify a row in an operator's state."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kestrel_sql.operators.operator import Value, Window

_BOUNDS = Struct(">qq")


def unpack_key(packed_key: bytes) -> tuple[bytes, Window]:
    """Return the key and the window of a packed key that has a window."""
    start, end = _BOUNDS.unpack(packed_key[-_BOUNDS.size :])
    return packed_key[: -_BOUNDS.size], (start, end)


def split_key(packed_key: bytes, windowed: bool) -> tuple[bytes, Window | None]:
    """Return the key and the window, if it has one, of a packed key."""
    return unpack_key(packed_key) if windowed else (packed_key, None)


def pack_keys(keys: Sequence[bytes | None], windows: Sequence[Window | None] | None) -> Sequence[bytes | None]:
    """Return the bytes of serialised keys and of the bounds of their windows, if they have any.

    They sort by key, then window.
    """
    if windows is None:
        return keys
    return [
        key if key is None or window is None else key + _BOUNDS.pack(*window)
        for key, window in zip(keys, windows, strict=True)
    ]


def with_window_size(windows: Sequence[Window | None] | None, size_ms: int | None) -> Sequence[Window | None] | None:
    """Return windows of the given size instead; None leaves them unchanged.

    A serialised key holds only the start of a time window, and the reader adds the size. Time windows with the same
    start are therefore the same key, even if their sources differ in size.
    """
    if windows is None or size_ms is None:
        return windows
    return [None if window is None else (window[0], window[0] + size_ms) for window in windows]


def restored_row(values: list[object] | tuple[object, ...] | None) -> Value | None:
    """Return a row of a state as a tuple; a checkpoint turns tuples into lists."""
    return None if values is None else tuple(values)
