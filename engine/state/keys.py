"""How an operator names the rows of its state: by the bytes of the key, and of the window where the key has one."""

from __future__ import annotations

from struct import Struct

from engine.state.operator import Key, KeyBytes, Value, Window

_BOUNDS = Struct(">qq")
_START = Struct(">q")


def identity(key_bytes: KeyBytes, key: Key, window: Window | None, with_end: bool = True) -> bytes:
    """Give the bytes that two rows share exactly if they have the same key and window.

    Byte order is key order, then window order. Without `with_end` windows are told apart by their start (ms) alone,
    as keys of time windows are written.
    """
    if window is None:
        return key_bytes(key)
    return key_bytes(key) + (_BOUNDS.pack(*window) if with_end else _START.pack(window[0]))


def unchanged(value: Value | None) -> Value | None:
    """Give the row itself: the round trip of a format that keeps everything."""
    return value


def stored_row(values: list[object] | tuple[object, ...] | None) -> Value | None:
    """Give a row as it was before the state went through a checkpoint, which turns tuples into lists."""
    return None if values is None else tuple(values)
