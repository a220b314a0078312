"""How an operator names the rows of its state: by the bytes of the key, and of the window where the key has one."""

from __future__ import annotations

from dataclasses import replace
from struct import Struct

from kestrel_sql.operators.operator import Key, KeyBytes, Row, Value, Window

_BOUNDS = Struct(">qq")


def identity(key_bytes: KeyBytes, key: Key, window: Window | None) -> bytes:
    """Give the bytes that two rows share exactly if they have the same key and window; their order is key, then window."""
    return key_bytes(key) if window is None else key_bytes(key) + _BOUNDS.pack(*window)


def sized(row: Row, window_size_ms: int | None) -> Row:
    """Give the row with the window its key is written with: a time window is its start and the size known to the reader.

    Two time windows with one start are therefore the same key, though their sources may differ in size. None leaves
    the row alone.
    """
    if window_size_ms is None or row.window is None:
        return row
    start = row.window[0]
    return replace(row, window=(start, start + window_size_ms))


def unchanged(value: Value | None) -> Value | None:
    """Give the row itself: the round trip of a format that keeps everything."""
    return value


def stored_row(values: list[object] | tuple[object, ...] | None) -> Value | None:
    """Give a row as it was before the state went through a checkpoint, which turns tuples into lists."""
    return None if values is None else tuple(values)
