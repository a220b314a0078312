"""The operators of the joining steps, and the facts of what they give."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.dataflow.key_bytes import is_delimited, key_bytes
from kestrel_sql.dataflow.query import Query
from kestrel_sql.dataflow.relation import KeyCodec, Relation
from kestrel_sql.operators.joins.foreign_key import ForeignKeyJoin
from kestrel_sql.operators.joins.stream_stream import StreamStreamJoin
from kestrel_sql.operators.joins.stream_table import StreamTableJoin
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.operators.operator import Operator
from kestrel_sql.plan.step import Formats
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression

AnyJoin = StreamStreamJoinV1 | StreamTableJoinV1 | TableTableJoinV1 | FkTableTableJoinV1


def stream_stream_join(
    step: StreamStreamJoinV1, query: Query, left: Relation, right: Relation
) -> tuple[Operator, Relation]:
    """Join two streams within a time span."""
    left = replace(left, key_codec=KeyCodec.of(step.left_internal_formats))
    result = _joined(step, query, left, right, is_table=False)
    operator = StreamStreamJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(query, left),
        before_ms=step.before_ms,
        after_ms=step.after_ms,
        grace_ms=step.grace_ms,
        window_size_ms=left.window.size_ms if left.window else None,
    )
    return operator, result


def stream_table_join(
    step: StreamTableJoinV1, query: Query, left: Relation, right: Relation
) -> tuple[Operator, Relation]:
    """Look each row of a stream up in a table."""
    left = replace(left, key_codec=KeyCodec.of(step.internal_formats))
    result = _joined(step, query, left, right, is_table=False)
    operator = StreamTableJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(query, left),
        window_size_ms=left.window.size_ms if left.window else None,
    )
    return operator, result


def table_table_join(
    step: TableTableJoinV1, query: Query, left: Relation, right: Relation
) -> tuple[Operator, Relation]:
    """Join two tables on their keys."""
    result = _joined(step, query, left, right, is_table=True)
    operator = TableJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(query, left),
        placeholder=len(result.schema.value) > len(left.schema.value) + len(right.schema.value),
    )
    return operator, result


def foreign_key_join(
    step: FkTableTableJoinV1, query: Query, left: Relation, right: Relation
) -> tuple[Operator, Relation]:
    """Join a table to the key of another; the extra column of its rows is the foreign key."""
    operator = ForeignKeyJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(query, left),
        foreign_key_bytes=key_bytes(query, right),
        loses_null=right.key_codec.format.format == "DELIMITED" and not right.rekeyed,
    )
    return operator, _joined(step, query, left, right, is_table=True)


def foreign_key(step: FkTableTableJoinV1) -> tuple[Expression, str]:
    """Return the expression of the foreign key, and the log entry of a row for which it fails."""
    expression: Expression = step.left_join_expression or ColumnRef(step.left_join_column_name or "")
    return expression, f"Error calculating left join expression: `{format_expression(expression)}`."


def _joined(step: AnyJoin, query: Query, left: Relation, right: Relation, *, is_table: bool) -> Relation:
    sides: tuple[Relation, Relation] = (left, right)
    return replace(
        left,
        nulls_empty_keys=any(is_delimited(*each) for each in zip(sides, _internal(step), strict=False)),
        schema=query.schema(step, left, right),
        is_table=is_table,
        has_old=is_table and step is not query.unread,
        has_old_key=False,
        extra=(),
    )


def _internal(step: AnyJoin) -> tuple[Formats, ...]:
    """The formats of the internal topics over which the sides of a join of streams may come."""
    match step:
        case StreamStreamJoinV1():
            return step.left_internal_formats, step.right_internal_formats
        case StreamTableJoinV1():
            return (step.internal_formats,)
        case _:
            return ()
