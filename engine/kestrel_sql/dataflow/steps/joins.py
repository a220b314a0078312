"""The joining steps."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.dataflow.evaluation import Expressions, StepLog, closed, reports, spread
from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.internal_topics import crossed
from kestrel_sql.dataflow.join_operators import (
    foreign_key,
    foreign_key_join,
    stream_stream_join,
    stream_table_join,
    table_table_join,
)
from kestrel_sql.dataflow.key_bytes import is_delimited
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Listed, Log, Part, Rows
from kestrel_sql.dataflow.steps.sources import with_key
from kestrel_sql.functions.values.casts import caster, unless_null
from kestrel_sql.plan.step import Formats
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.types.schema import Column, Role


def stream_stream_join_v1(step: StreamStreamJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Join two streams within a time span."""
    left = _repartitioned(step.left_internal_formats, query, left)
    right = _repartitioned(step.right_internal_formats, query, right)
    return query.stateful(stream_stream_join(step, query, left, right), (left, right), query.logger(step))


def stream_table_join_v1(step: StreamTableJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Look each row of a stream up in a table."""
    left = _repartitioned(step.internal_formats, query, left)
    return query.stateful(stream_table_join(step, query, left, right), (left, right), query.logger(step))


def table_table_join_v1(step: TableTableJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Join two tables on their keys."""
    return query.stateful(table_table_join(step, query, left, right), (left, right), query.logger(step))


def _repartitioned(formats: Formats, query: GraphQuery, source: Relation) -> Relation:
    """Drop the rows whose keys an internal topic loses (rule F4.3.7)."""
    if not source.rekeyed:
        return source
    source = crossed(formats, query, source)
    if not is_delimited(source, formats) or len(source.schema.key) > 1:
        return source
    return query.then(source, with_key, source, "drop rows without a key")


def fk_table_table_join_v1(step: FkTableTableJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Join a table to the key of another."""
    left = _with_foreign_key(step, query, left, right)
    return query.stateful(foreign_key_join(step, query, left, right), (left, right), query.logger(step))


def _with_foreign_key(step: FkTableTableJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Add the foreign key to each left row; NULL where it fails."""
    expression, message = foreign_key(step)
    step_log, expressions = StepLog.of(query, step), Expressions(query, left, nested=False)
    bound = expressions.bind(expression)
    scope, evaluate, of, target = expressions.scope, expressions.of(bound), bound.type, right.schema.key[0].type

    as_key = unless_null(caster(of, target))

    def apply(log: Log, rows: Rows) -> Rows:
        part = rows.value
        own = part.indices()

        def failed(at: int, error: Exception) -> None:
            step_log.failed(log, rows, own[at], message, error)

        found = closed(evaluate, scope.of_part(part, own, reports(step_log, log, rows, own)), failed)
        keys = spread([*map(as_key, found)], own, part.size)
        return replace(rows, extra=Part([Listed(keys)], part.size, part.present))

    column = Column(right.schema.key[0].name, target, Role.VALUE)
    text = f"foreign key {format_expression(expression)}"
    return query.then(left, apply, replace(left, extra=(column,)), text)
