"""Keys and rows of operators, one at a time."""

from __future__ import annotations

from dataclasses import replace
from struct import Struct

from kestrel_sql.operators.operator import Key, KeyBytes, Row, Value, Window
from kestrel_sql.sql.nodes.statements import JoinType

_BOUNDS = Struct(">qq")


def pack_key(key_bytes: KeyBytes, key: Key, window: Window | None) -> bytes:
    """Return the bytes of the key and of the bounds of its window, if it has one; they sort by key, then window."""
    return key_bytes(key) if window is None else key_bytes(key) + _BOUNDS.pack(*window)


def unpack_key(packed_key: bytes) -> tuple[bytes, Window]:
    """Return the key and the window of a packed key that has a window."""
    start, end = _BOUNDS.unpack(packed_key[-_BOUNDS.size :])
    return packed_key[: -_BOUNDS.size], (start, end)


def with_window_size(row: Row, window_size_ms: int | None) -> Row:
    """Return the row with a window of the given size; None, or a row without window, leaves the row unchanged.

    A serialised key holds only the start of a time window, and the reader adds the size. Time windows with the same
    start are therefore the same key, even if their sources differ in size.
    """
    if window_size_ms is None or row.window is None:
        return row
    start = row.window[0]
    return replace(row, window=(start, start + window_size_ms))


def restored_row(values: list[object] | tuple[object, ...] | None) -> Value | None:
    """Return a row of a state as a tuple; a checkpoint turns tuples into lists."""
    return None if values is None else tuple(values)


def outer_sides(join_type: JoinType) -> tuple[bool, bool]:
    """For left and right, whether the join emits rows without a match."""
    return join_type in (JoinType.LEFT, JoinType.OUTER), join_type in (JoinType.RIGHT, JoinType.OUTER)


def pair(
    left: Value | None,
    right: Value | None,
    widths: tuple[int, int],
    *,
    right_first: bool = False,
    placeholder: bool = False,
) -> Value:
    """Concatenate the columns of both sides; a missing side is all nulls.

    `widths` are the numbers of columns, left and right. RIGHT joins put the right columns first. `placeholder` appends
    a null for the key column (rules P6.6).
    """
    lefts = (None,) * widths[0] if left is None else left
    rights = (None,) * widths[1] if right is None else right
    joined = (*rights, *lefts) if right_first else (*lefts, *rights)
    return (*joined, None) if placeholder else joined
