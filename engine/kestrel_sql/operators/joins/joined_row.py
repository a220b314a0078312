"""How the rows of two sides become one row."""

from __future__ import annotations

from kestrel_sql.operators.operator import Value
from kestrel_sql.sql.nodes.statements import JoinType


def outer_sides(join_type: JoinType) -> tuple[bool, bool]:
    """Say for left and right whether a row without a match is kept."""
    return join_type in (JoinType.LEFT, JoinType.OUTER), join_type in (JoinType.RIGHT, JoinType.OUTER)


def pair(
    left: Value | None,
    right: Value | None,
    widths: tuple[int, int],
    *,
    right_first: bool = False,
    placeholder: bool = False,
) -> Value:
    """Put the columns of both sides in a row, nulls for a missing side.

    `right_first` is the order of RIGHT joins; `placeholder` appends the null that stands for the key column (plan-format.md 6.6).
    """
    lefts = (None,) * widths[0] if left is None else left
    rights = (None,) * widths[1] if right is None else right
    joined = (*rights, *lefts) if right_first else (*lefts, *rights)
    return (*joined, None) if placeholder else joined
