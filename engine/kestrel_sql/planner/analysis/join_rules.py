"""Checks the rules on joins: kinds of the sides, types of the criteria, windows (rules L9)."""

from __future__ import annotations

from kestrel_sql.errors import StatementError, TypeMismatchError
from kestrel_sql.plan.step import WindowType
from kestrel_sql.planner.analysis.join_criteria import JOIN_SQL, Joined, is_key
from kestrel_sql.planner.analysis.scope import QuerySource
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.sql_types import SqlType


def check_join(join: Joined, *, left_is_table: bool, foreign: bool, keyed: bool, types: Types) -> None:
    """Check one join; `keyed` says whether the criterion is the key of the left side.

    Raises:
        StatementError: the join breaks a rule.
    """
    _check_kinds(join, left_is_table=left_is_table)
    if left_is_table:
        _check_tables(join, foreign=foreign, keyed=keyed)
    _check_windows(join)
    _check_types(join, types)
    _check_within(join, left_is_table=left_is_table)


def _check_kinds(join: Joined, *, left_is_table: bool) -> None:
    got = f"Got {join.left.alias} {JOIN_SQL[join.type]} {join.right.alias}."
    if left_is_table and not join.right.is_table:
        raise StatementError(
            f"Invalid join order: table-stream joins are not supported; only stream-table joins. {got}"
        )
    if left_is_table or not join.right.is_table:
        return
    if join.type is JoinType.OUTER:
        raise StatementError(f"Invalid join type: full-outer join not supported for stream-table join. {got}")
    if join.type is JoinType.RIGHT:
        raise StatementError(f"Invalid join type: right join not supported for stream-table join. {got}")
    if not is_key(join.right, join.right_on):
        raise StatementError(
            "Invalid join condition: stream-table joins require to join on the table's primary key. "
            f"Got {join.written}."
        )


def _check_tables(join: Joined, *, foreign: bool, keyed: bool) -> None:
    if not is_key(join.right, join.right_on):
        raise StatementError(
            "Invalid join condition: table-table joins require to join on the primary key of the right input table. "
            f"Got {join.written}."
        )
    if foreign:
        if join.type is JoinType.RIGHT:
            raise StatementError("RIGHT OUTER JOIN on a foreign key is not supported")
        if join.type is JoinType.OUTER:
            raise StatementError("Invalid join type: FULL OUTER JOIN on a foreign key is not supported.")
        if join.right.source.window is not None:
            raise StatementError(
                "Invalid join condition: foreign-key table-table joins are not supported on windowed tables. "
                f"Got {join.written}."
            )
    elif not keyed:
        raise StatementError(
            "Invalid join condition: foreign-key table-table joins are not supported as part of n-way joins. "
            f"Got {join.written}."
        )


def _check_windows(join: Joined) -> None:
    left, right = join.left.source.window, join.right.source.window
    if (left is None) != (right is None):
        raise StatementError(
            "Can not join windowed source to non-windowed source.\n"
            f"{_window_text(join.left)}\n{_window_text(join.right)}"
        )
    if (
        left is not None
        and right is not None
        and (left.type is WindowType.SESSION) != (right.type is WindowType.SESSION)
    ):
        raise StatementError(f"Incompatible windowed sources.\n{_window_text(join.left)}\n{_window_text(join.right)}")


def _window_text(source: QuerySource) -> str:
    window = source.source.window
    return f"`{source.alias}` is {'not' if window is None else window.type.value} windowed"


def _check_types(join: Joined, types: Types) -> None:
    left, right = _type(join.left, join.left_on, types), _type(join.right, join.right_on, types)
    if left != right:
        raise TypeMismatchError(
            "Invalid join condition: types don't match. "
            f"Got {format_expression(join.left_on)}{{{left}}} = {format_expression(join.right_on)}{{{right}}}.",
            span=join.right_on.span,
        )


def _type(source: QuerySource, expression: Expression, types: Types) -> SqlType | None:
    return types.of(expression, {column.name: column.type for column in source.rows.value})


def _check_within(join: Joined, *, left_is_table: bool) -> None:
    if not join.right.is_table:
        if join.within is None:
            raise StatementError(
                "Stream-Stream joins must have a WITHIN clause specified. None was provided.",
                hint="say how far apart in time matching rows may be, such as WITHIN 1 HOUR",
            )
        return
    if join.within is None:
        return
    kind = "Table-Table" if left_is_table else "Stream-Table"
    raise StatementError(
        f"A window definition was provided for a {kind} join. These joins are not windowed. "
        "Please drop the window definition (ie. the WITHIN clause) and try to execute your join again.",
        span=join.within.span,
    )
