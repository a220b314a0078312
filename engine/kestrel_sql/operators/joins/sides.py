"""The sides of a join."""

from __future__ import annotations

from kestrel_sql.sql.nodes.statements import JoinType

SIDES = ("left", "right")
"""The parts of a state with the rows of each side."""


def outer_sides(join_type: JoinType) -> tuple[bool, bool]:
    """For left and right, whether the join emits rows without a match."""
    return join_type in (JoinType.LEFT, JoinType.OUTER), join_type in (JoinType.RIGHT, JoinType.OUTER)


def parts_of(join_type: JoinType) -> tuple[int, int]:
    """The order of the sides in a result: RIGHT joins put the right columns first."""
    return (1, 0) if join_type is JoinType.RIGHT else (0, 1)
