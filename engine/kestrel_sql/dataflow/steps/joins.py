"""The joining steps."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.dataflow.evaluation import Expressions, StepLog, closed, reports, spread
from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.internal_topics import repartitioned, without_null_keys
from kestrel_sql.dataflow.key_bytes import key_bytes
from kestrel_sql.dataflow.relation import KeyCodec, Relation
from kestrel_sql.dataflow.rows import Listed, Log, Part, Rows
from kestrel_sql.formats.table import format_of
from kestrel_sql.functions.values.casts import caster, unless_null
from kestrel_sql.operators.joins.foreign_key import ForeignKeyJoin
from kestrel_sql.operators.joins.stream_stream import StreamStreamJoin
from kestrel_sql.operators.joins.stream_table import StreamTableJoin
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression
from kestrel_sql.types.schema import Column, Role

AnyJoin = StreamStreamJoinV1 | StreamTableJoinV1 | TableTableJoinV1 | FkTableTableJoinV1


def stream_stream_join_v1(step: StreamStreamJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Join two streams within a time span."""
    left = repartitioned(step.left_internal_formats, query, left)
    right = repartitioned(step.right_internal_formats, query, right)
    keyed = replace(left, key_codec=KeyCodec.of(step.left_internal_formats))
    operator = StreamStreamJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(query, keyed),
        before_ms=step.before_ms,
        after_ms=step.after_ms,
        grace_ms=step.grace_ms,
        window_size_ms=left.window.size_ms if left.window else None,
    )
    facts = _joined(step, query, keyed, right)
    return query.stateful((operator, facts), (left, right), query.logger(step))


def stream_table_join_v1(step: StreamTableJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Look each row of a stream up in a table."""
    left = repartitioned(step.internal_formats, query, left)
    keyed = replace(left, key_codec=KeyCodec.of(step.internal_formats))
    operator = StreamTableJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(query, keyed),
        window_size_ms=left.window.size_ms if left.window else None,
    )
    facts = _joined(step, query, keyed, right)
    return query.stateful((operator, facts), (left, right), query.logger(step))


def table_table_join_v1(step: TableTableJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Join two tables on their keys."""
    facts = _joined(step, query, left, right, is_table=True)
    operator = TableJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(query, left),
        placeholder=len(facts.schema.value) > len(left.schema.value) + len(right.schema.value),
    )
    return query.stateful((operator, facts), (left, right), query.logger(step))


def fk_table_table_join_v1(step: FkTableTableJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Join a table to the key of another; the extra column of its rows is the foreign key."""
    if format_of(left.key_codec.format.format).loses_empty:
        left = without_null_keys(query, left)
    left = _with_foreign_key(step, query, left, right)
    operator = ForeignKeyJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(query, left),
        foreign_key_bytes=key_bytes(query, right),
        loses_null=format_of(right.key_codec.format.format).loses_empty and not right.rekeyed,
    )
    facts = _joined(step, query, left, right, is_table=True)
    return query.stateful((operator, facts), (left, right), query.logger(step))


def _joined(step: AnyJoin, query: GraphQuery, left: Relation, right: Relation, *, is_table: bool = False) -> Relation:
    return replace(
        left,
        schema=query.schema(step, left, right),
        is_table=is_table,
        has_old=is_table and step is not query.unread,
        has_old_key=False,
        extra=(),
    )


def _with_foreign_key(step: FkTableTableJoinV1, query: GraphQuery, left: Relation, right: Relation) -> Relation:
    """Add the foreign key to each left row; NULL where it fails."""
    expression: Expression = step.left_join_expression or ColumnRef(step.left_join_column_name or "")
    message = f"Error calculating left join expression: `{format_expression(expression)}`."
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
