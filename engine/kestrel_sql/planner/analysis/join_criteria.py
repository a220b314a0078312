"""Resolves join criteria: which sources they compare, and which columns can be the key of the result."""

from __future__ import annotations

import msgspec

from kestrel_sql.errors import StatementError
from kestrel_sql.planner.analysis.scope import QuerySource, Scope
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import ColumnRef, Comparison, ComparisonOp, Expression, Logical
from kestrel_sql.sql.nodes.statements import Join, JoinType, Query, Within
from kestrel_sql.sql.nodes.walk import column_refs

JOIN_SQL = {
    JoinType.INNER: "[INNER] JOIN",
    JoinType.LEFT: "LEFT [OUTER] JOIN",
    JoinType.RIGHT: "RIGHT [OUTER] JOIN",
    JoinType.OUTER: "[FULL] OUTER JOIN",
}


class Joined(msgspec.Struct, frozen=True):
    """One join: `right` is the newly joined source, `left` the earlier source that the criterion names.

    `written` is the criterion as SQL, for messages.
    """

    type: JoinType
    left: QuerySource
    right: QuerySource
    left_on: Expression
    right_on: Expression
    within: Within | None
    written: str


def analyze_joins(query: Query, scope: Scope) -> tuple[Joined, ...]:
    """Resolve the criteria of all joins of a query.

    Raises:
        StatementError: a criterion does not compare two sources, or a source occurs twice.
    """
    _check_occurrences(scope)
    return tuple(_joined(join, number, scope) for number, join in enumerate(query.joins, 1))


def _check_occurrences(scope: Scope) -> None:
    names = [source.source.name for source in scope.sources]
    for number, name in enumerate(names):
        if name not in names[:number]:
            continue
        if len(names) == 2:
            raise StatementError(f"Can not join '{name}' to '{name}': self joins are not yet supported.")
        raise StatementError(f"N-way joins do not support multiple occurrences of the same source. Source: '{name}'")


def _joined(join: Join, number: int, scope: Scope) -> Joined:
    criteria = scope.qualify(join.criteria)
    comparison = _comparison(criteria)
    scope.check(criteria, "JOIN ON")
    first = _side_source(comparison.left, comparison, scope)
    second = _side_source(comparison.right, comparison, scope)
    if first is second:
        raise StatementError(
            "Each side of the join must reference exactly one source and not the same source. "
            f"Left side references `{first.alias}` and right references `{second.alias}`",
            span=join.span,
        )
    new = scope.sources[number]
    earlier = scope.sources[:number]
    written = f"{format_expression(comparison.left)} = {format_expression(comparison.right)}"
    if second is new and first in earlier:
        return Joined(join.type, first, new, comparison.left, comparison.right, join.within, written)
    if first is new and second in earlier:
        return Joined(join.type, second, new, comparison.right, comparison.left, join.within, written)
    raise StatementError(
        f"A join criteria is expected to reference the source (`{new.alias}`) in the FROM clause, "
        f"instead the right source references `{second.alias}` and the left source references `{first.alias}`",
        span=join.span,
    )


def _comparison(criteria: Expression) -> Comparison:
    if isinstance(criteria, Logical):
        raise StatementError(
            "Invalid join condition: joins on multiple conditions are not yet supported. "
            f"Got {format_expression(criteria)}.",
            span=criteria.span,
        )
    if not isinstance(criteria, Comparison):
        raise StatementError(f"Unsupported join expression: {format_expression(criteria)}", span=criteria.span)
    if criteria.op is not ComparisonOp.EQUAL:
        raise StatementError("Only equality join criteria is supported.", span=criteria.span)
    return criteria


def _side_source(side: Expression, comparison: Comparison, scope: Scope) -> QuerySource:
    aliases = list(dict.fromkeys(ref.qualifier for ref in column_refs(side) if ref.qualifier))
    if len(aliases) != 1:
        raise StatementError(
            f"Invalid comparison expression '{format_expression(side)}' in join '{format_expression(comparison)}'. "
            "Each side of the join comparision must contain references from exactly one source.",
            span=side.span,
        )
    return scope.source(aliases[0])


def is_key(source: QuerySource, expression: Expression) -> bool:
    """Whether the expression is the only key column of a source."""
    return (expression,) == key_of(source)


def key_of(source: QuerySource) -> tuple[ColumnRef, ...]:
    """The qualified key columns of a source."""
    return tuple(ColumnRef(column.name, source.alias) for column in source.source.schema.key)


def is_foreign_key(join: Joined) -> bool:
    """Whether a join of two tables finds right rows by something else than the left table's key."""
    tables = join.left.is_table and join.right.is_table
    return tables and is_key(join.right, join.right_on) and not is_key(join.left, join.left_on)


def equal_expressions(joins: tuple[Joined, ...]) -> frozenset[Expression]:
    """The expressions that equal the result's key after all of `joins` (rules N7.4)."""
    if not joins or joins[-1].type is JoinType.OUTER:
        return frozenset()
    if len(joins) == 1 and is_foreign_key(joins[0]):
        # A foreign-key join keeps the left table's key.
        return frozenset(key_of(joins[0].left))
    own = frozenset({joins[-1].left_on, joins[-1].right_on})
    before = equal_expressions(joins[:-1])
    return own | before if own & before else own


def viable_keys(joins: tuple[Joined, ...]) -> tuple[ColumnRef, ...]:
    """The columns that can be the key of the result of `joins`, best first; empty means a synthetic key."""
    if not joins or joins[-1].type is JoinType.OUTER:
        return ()
    equal = equal_expressions(joins)
    if len(joins) == 1 and is_foreign_key(joins[0]):
        return key_of(joins[0].left)
    candidates = (*viable_keys(joins[:-1]), joins[-1].left_on, joins[-1].right_on)
    return tuple(dict.fromkeys(c for c in candidates if isinstance(c, ColumnRef) and c in equal))
