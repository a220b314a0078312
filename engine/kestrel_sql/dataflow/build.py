"""Builds the graph of a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kestrel_sql.dataflow.demand import unread_table
from kestrel_sql.dataflow.graph import Flow, Graph, GraphQuery
from kestrel_sql.dataflow.queryable import build_queryable
from kestrel_sql.dataflow.rows import Row
from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.dataflow.stateful import aggregates
from kestrel_sql.dataflow.stateful import joins as joins_by_key
from kestrel_sql.dataflow.steps import joins, kafka, sinks, sources, streams, tables
from kestrel_sql.dataflow.walk import build, collect_builders
from kestrel_sql.functions.registry import Registry
from kestrel_sql.java.numbers import round_decimal
from kestrel_sql.plan.step import Step
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.own_scales import at_declared_scales, has_own_scales, with_own_scales
from kestrel_sql.types.schema import Column

BUILDERS = collect_builders(sources, kafka, streams, tables, aggregates, joins_by_key, joins, sinks)


def build_graph(run: QueryRun, functions: Registry) -> Graph:
    """Build the graph of a query.

    Raises:
        StatementError: an expression of the plan has a type error.
    """
    root = run.plan.physical_plan
    query = GraphQuery(
        query_id=run.plan.query_id,
        settings=run.settings,
        functions=functions,
        serde=run.serde,
        unread=unread_table(root),
    )
    query.graph.end = (
        build_queryable(root, query, build_step, replaceable=run.replaceable)
        if run.queryable
        else build_step(root, query)
    )
    return query.graph


def build_step(step: Step, query: GraphQuery) -> Flow:
    """Build the steps upstream of `step`, then `step` itself, and return its result."""
    return build(step, query, BUILDERS, rescaled)


def rescaled(query: GraphQuery, source: Flow) -> Flow:
    """Give DECIMALs with scales of their own the scale of their type, as a serde does (rule U4.7)."""
    if not any(has_own_scales(column.type) for column in source.schema.columns):
        return source
    of_key, of_value = _scaler(source.schema.key), _scaler(source.schema.value)

    def changed(row: Row) -> Row:
        return replace(
            row, key=of_key(row.key), value=of_value(row.value), old=of_value(row.old), old_key=of_key(row.old_key)
        )

    return query.each(source, changed, replace(source, schema=at_declared_scales(source.schema)))


def _scaler(columns: Sequence[Column]) -> Callable[[tuple[Any, ...] | None], tuple[Any, ...] | None]:
    types = [with_own_scales(column.type, False) if has_own_scales(column.type) else None for column in columns]

    def scaled(values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if values is None:
            return None
        pairs = zip(values, types, strict=True)
        return tuple(value if of is None else _at_scale(value, of) for value, of in pairs)

    return scaled


def _at_scale(value: Any, sql_type: t.SqlType) -> Any:
    if value is None:
        return None
    match sql_type:
        case t.Decimal():
            return _fitting(value, sql_type)
        case t.Array(item):
            return [_at_scale(each, item) for each in value]
        case t.Map(_, item):
            return {key: _at_scale(each, item) for key, each in value.items()}
        case t.Struct(fields):
            return {field.name: _at_scale(value.get(field.name), field.type) for field in fields}
        case _:
            return value


def _fitting(value: Any, sql_type: t.Decimal) -> Any:
    """The value at the scale of its type; NULL if it has too many digits."""
    try:
        return round_decimal(value, sql_type)
    except ArithmeticError:
        return None
