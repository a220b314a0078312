"""Checks the clauses of a query against each other, which needs no plan (rules L9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kestrel_sql.errors import StatementError
from kestrel_sql.planner.analysis.scope import Scope
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import Case, Expression, FunctionCall, Lambda, NullLiteral
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.nodes.walk import calls, rewrite, walk


def check_shape(
    query: Query, scope: Scope, select: tuple[Expression, ...], types: Types, *, is_persistent: bool
) -> None:
    """Check the clauses of a query; `select` are the expressions of its projection.

    Raises:
        StatementError: the query breaks a rule.
    """
    _check_value_formats(query, scope)
    _check_windowed_tables(scope, is_persistent=is_persistent)
    _check_partition_by(query)
    _check_keys(query, types)
    _check_table_functions(query, scope, select, types)
    _check_nested_aggregates(select, types)


def check_lambdas(expression: Expression, scope: Scope, types: Types) -> None:
    """Check the lambdas in an expression (rules L2).

    Raises:
        StatementError: lambdas are disabled, or a parameter has the name of a column or of another parameter in scope.
    """
    first = next((node for node in walk(expression) if isinstance(node, Lambda)), None)
    if first is None:
        return
    if not types.config.flag("ksql.lambdas.enabled"):
        raise StatementError("Lambdas are not enabled at this time.", span=first.span)
    _check_parameters(expression, frozenset(column.name for s in scope.sources for column in s.source.schema.columns))


def _check_parameters(expression: Expression, taken: frozenset[str]) -> None:
    outermost: list[Lambda] = []

    def collect(node: Expression) -> Expression | None:
        if not isinstance(node, Lambda):
            return None
        outermost.append(node)
        return node

    rewrite(expression, collect)
    for node in outermost:
        duplicates = [name for i, name in enumerate(node.parameters) if name in taken or name in node.parameters[:i]]
        if duplicates:
            raise StatementError(
                f"Lambda function argument can't be an existing/duplicate name: {duplicates[0]}", span=node.span
            )
        _check_parameters(node.body, taken | frozenset(node.parameters))


def _check_value_formats(query: Query, scope: Scope) -> None:
    clause = "JOIN" if scope.is_join else "GROUP BY" if query.group_by is not None else None
    names = [s.source.name for s in scope.sources if s.source.formats.value_format.format == "KAFKA"]
    if clause and names:
        raise StatementError(
            f"Source(s) {', '.join(names)} are using the 'KAFKA' value format. "
            f"This format does not yet support {clause}.\nUse another format when creating the source."
        )


def _check_windowed_tables(scope: Scope, *, is_persistent: bool) -> None:
    if is_persistent and any(source.is_table and source.source.window is not None for source in scope.sources):
        raise StatementError("KSQL does not support persistent queries on windowed tables.")


def _check_partition_by(query: Query) -> None:
    if query.partition_by is None:
        return
    if not query.partition_by:
        raise StatementError("PARTITION BY requires at least one expression")
    if len(query.partition_by) > 1 and any(isinstance(e, NullLiteral) for e in query.partition_by):
        raise StatementError("Cannot PARTITION BY multiple columns including NULL")


def _check_keys(query: Query, types: Types) -> None:
    for expression in (*(query.partition_by or ()), *(join.criteria for join in query.joins)):
        for call in calls(expression, lambda name: types.is_aggregate(name) or types.is_table_function(name)):
            raise StatementError(
                f"A key cannot contain aggregate or table functions: {call.name} is one.", span=call.span
            )
    for expression in query.group_by or ():
        for call in calls(expression, types.is_table_function):
            raise StatementError(f"GROUP BY does not support table functions: {call.name} is one.", span=call.span)


def _check_table_functions(query: Query, scope: Scope, select: tuple[Expression, ...], types: Types) -> None:
    used = [call for expression in select for call in calls(expression, types.is_table_function)]
    if not used:
        return
    if query.group_by is not None or any(types.has(expression, types.is_aggregate) for expression in select):
        raise StatementError("Table functions cannot be used with aggregations.")
    if scope.sources[0].is_table:
        raise StatementError("Table source is not supported with table functions")
    for call in used:
        if any(types.has(argument, types.is_table_function) for argument in call.arguments):
            raise StatementError(f"Table functions cannot be nested: {format_expression(call)}", span=call.span)
    if any(isinstance(node, Case) and types.has(node, types.is_table_function) for node in _nodes(select)):
        raise StatementError("Table functions cannot be used in CASE statements.")


def _check_nested_aggregates(select: tuple[Expression, ...], types: Types) -> None:
    for node in _nodes(select):
        if isinstance(node, FunctionCall) and types.is_aggregate(node.name):
            if any(types.has(argument, types.is_aggregate) for argument in node.arguments):
                raise StatementError(
                    f"Aggregate functions can not be nested: {format_expression(node)}", span=node.span
                )


def _nodes(expressions: Iterable[Expression]) -> Iterator[object]:
    return (node for expression in expressions for node in walk(expression))
