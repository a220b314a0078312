"""The planner of `ksql.new.query.planner.enabled`: selects columns of one stream, key columns optional (rules L8)."""

from __future__ import annotations

from collections.abc import Iterator

from kestrel_sql.errors import StatementError, UnsupportedError
from kestrel_sql.plan.step import SelectItem
from kestrel_sql.plan.steps.streams import StreamSelectV1
from kestrel_sql.planner.analysis.analyze import Analysis
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.lowering.relation import Relation
from kestrel_sql.planner.lowering.single_source import read
from kestrel_sql.sql.nodes.expressions import ColumnRef
from kestrel_sql.sql.nodes.statements import Query, SelectAll, SelectExpression
from kestrel_sql.types.schema import Schema


def plan_columns(analysis: Analysis, types: Types) -> Relation:
    """Plan a query that selects columns of one stream; key and value columns stand in SELECT order.

    Raises:
        UnsupportedError: the query has any other clause.
        StatementError: the query has an alias or an expression.
    """
    _check_clauses(analysis.query)
    source = analysis.scope.sources[0].source
    if analysis.scope.sources[0].is_table:
        raise UnsupportedError("New query planner does not support tables")
    relation = read(source, "SOURCE", types)
    names = list(_names(analysis))
    keys = tuple(name for name in relation.key_names if name in names)
    values = tuple(SelectItem(ColumnRef(name), name) for name in names if name not in keys)
    step = StreamSelectV1(
        query_context="SELECT",
        source=relation.step,
        key_column_names=relation.key_names,
        selected_keys=keys,
        select_expressions=values,
    )
    return relation.then(step, types)


def in_select_order(analysis: Analysis, schema: Schema) -> Schema:
    """Return the schema of the sink, whose key columns stand in the order of the projection."""
    names = list(_names(analysis))
    return Schema((*sorted(schema.key, key=lambda column: names.index(column.name)), *schema.value))


def _names(analysis: Analysis) -> Iterator[str]:
    for item in analysis.select:
        if isinstance(item, SelectAll):
            yield from analysis.scope.star(item.qualifier)
        elif isinstance(item.expression, ColumnRef):
            yield item.expression.name


def _check_clauses(query: Query) -> None:
    clauses = {
        "WHERE": query.where is not None,
        "GROUP BY": query.group_by is not None,
        "HAVING": query.having is not None,
        "WINDOWS": query.window is not None,
        "PARTITION BY": query.partition_by is not None,
        "LIMIT": query.limit is not None,
        "joins": bool(query.joins),
    }
    used = next((clause for clause, present in clauses.items() if present), None)
    if used is not None:
        raise UnsupportedError(f"New query planner does not support {used}")
    for item in query.select:
        if isinstance(item, SelectAll):
            continue
        if (
            not isinstance(item, SelectExpression)
            or item.alias is not None
            or not isinstance(item.expression, ColumnRef)
        ):
            raise StatementError(
                "New query planner only support column references, no expressions or aliases.", span=item.span
            )
