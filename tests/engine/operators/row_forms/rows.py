"""Rows of operators, one at a time."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.operators.operator import Value
from tests.engine.operators.row_forms.row_operator import Row


def with_window_size(row: Row, window_size_ms: int | None) -> Row:
    """Return the row with a window of the given size; None, or a row without window, leaves the row unchanged.

    A serialised key holds only the start of a time window, and the reader adds the size. Time windows with the same
    start are therefore the same key, even if their sources differ in size.
    """
    if window_size_ms is None or row.window is None:
        return row
    start = row.window[0]
    return replace(row, window=(start, start + window_size_ms))


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
