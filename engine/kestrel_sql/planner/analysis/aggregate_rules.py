"""Checks the rules on aggregating queries (rules L9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kestrel_sql.errors import StatementError
from kestrel_sql.plan.step import SelectItem
from kestrel_sql.planner.analysis.analyze import Analysis
from kestrel_sql.planner.analysis.scope import BOUND_NAMES, Scope
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, FunctionCall, NullLiteral
from kestrel_sql.sql.nodes.walk import calls, column_refs, rewrite, walk


def check_aggregates(
    analysis: Analysis,
    items: tuple[SelectItem, ...],
    group_by: tuple[Expression, ...],
    having: Expression | None,
    types: Types,
) -> None:
    """Check an aggregating query, whose expressions have unqualified column names.

    Raises:
        StatementError: the query breaks a rule.
    """
    select = tuple(item.expression for item in items)
    if analysis.query.window is not None:
        _check_bounds(analysis, select, group_by, having, types)
    _check_group_by(analysis.scope, group_by, types)
    aggregates = tuple(
        call for e in (*select, *((having,) if having is not None else ())) for call in calls(e, types.is_aggregate)
    )
    if not aggregates:
        raise StatementError("GROUP BY requires aggregate functions in either the SELECT or HAVING clause.")
    bounds = BOUND_NAMES if analysis.query.window is not None else frozenset[str]()
    ungrouped = [analysis.scope.readable(e) for e in select if not _is_grouped(e, group_by, bounds, types)]
    if ungrouped:
        raise StatementError(f"Non-aggregate SELECT expression(s) not part of GROUP BY: {', '.join(ungrouped)}")
    if having is not None and not _is_grouped(having, group_by, bounds, types):
        text = analysis.scope.readable(having)
        raise StatementError(f"Non-aggregate HAVING expression not part of GROUP BY: {text}")
    _check_has_group_by(analysis, aggregates)


def _check_has_group_by(analysis: Analysis, aggregates: tuple[FunctionCall, ...]) -> None:
    if analysis.group_by is not None:
        return
    if analysis.query.window is not None:
        raise StatementError("WINDOW clause requires a GROUP BY clause.", span=analysis.query.window.span)
    if analysis.is_persistent:
        listed = ", ".join(map(format_expression, aggregates))
        raise StatementError(
            f"CREATE TABLE AS SELECT statement does not support aggregate function [{listed}] "
            "without a GROUP BY clause."
        )


def _check_group_by(scope: Scope, group_by: tuple[Expression, ...], types: Types) -> None:
    seen: set[Expression] = set()
    for expression in group_by:
        for call in calls(expression, types.is_aggregate):
            raise StatementError(
                f"GROUP BY does not support aggregate functions: {call.name} is an aggregate function.",
                span=expression.span,
            )
        if expression in seen:
            raise StatementError(f"Duplicate GROUP BY expression: {scope.written(expression)}", span=expression.span)
        if isinstance(expression, NullLiteral):
            raise StatementError("GROUP BY does not support NULL.", span=expression.span)
        seen.add(expression)


def _is_grouped(expression: Expression, grouped: Sequence[Expression], bounds: frozenset[str], types: Types) -> bool:
    """Whether all columns but the bounds of the query's own window are inside aggregates or grouping expressions."""

    def replaced(node: Expression) -> Expression | None:
        inside = node in grouped or (isinstance(node, FunctionCall) and types.is_aggregate(node.name))
        return NullLiteral() if inside else None

    return all(ref.name in bounds for ref in column_refs(rewrite(expression, replaced)))


def _check_bounds(
    analysis: Analysis,
    select: Iterable[Expression],
    group_by: Iterable[Expression],
    having: Expression | None,
    types: Types,
) -> None:
    for expression in (*_without_bounds(select, group_by, having, types), *_before_grouping(analysis)):
        for node in walk(expression):
            if isinstance(node, ColumnRef) and node.name in BOUND_NAMES:
                raise StatementError(
                    f"Window bounds column {node.name} can only be used in the SELECT clause of windowed aggregations "
                    "and can not be passed to aggregate functions.\n"
                    "See https://github.com/confluentinc/ksql/issues/4397",
                    span=node.span,
                )


def _before_grouping(analysis: Analysis) -> Iterator[Expression]:
    if analysis.where is not None:
        yield analysis.where
    yield from analysis.partition_by or ()


def _without_bounds(
    select: Iterable[Expression], group_by: Iterable[Expression], having: Expression | None, types: Types
) -> Iterator[Expression]:
    for expression in select:
        yield from calls(expression, types.is_aggregate)
    yield from group_by
    if having is not None:
        yield having
