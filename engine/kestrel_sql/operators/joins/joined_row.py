"""Combines a left and a right row into one."""

from __future__ import annotations

from kestrel_sql.operators.operator import Value
from kestrel_sql.sql.nodes.statements import JoinType


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
