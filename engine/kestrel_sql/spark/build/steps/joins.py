"""Builders of the joining steps."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.operators.joins.foreign_key import ForeignKeyJoin
from kestrel_sql.operators.joins.stream_stream import StreamStreamJoin
from kestrel_sql.operators.joins.stream_table import StreamTableJoin
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.operators.operator import Operator
from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1
from kestrel_sql.spark.build.keyed import key_bytes
from kestrel_sql.spark.build.projections import present
from kestrel_sql.spark.build.steps.streams import schema_after
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.expressions import compile_closed
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle, KeyCodec
from kestrel_sql.spark.stages.stage import Operation
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression
from kestrel_sql.types.schema import Column, Role, Schema

AnyJoin = StreamStreamJoinV1 | StreamTableJoinV1 | TableTableJoinV1


def stream_stream_join_v1(step: StreamStreamJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Join two streams within a time span."""
    left = replace(left, key_codec=KeyCodec.of(step.left_internal_formats))
    schema = schema_after(build, step, left, right)
    operator = StreamStreamJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(build, left),
        before_ms=step.before_ms,
        after_ms=step.after_ms,
        grace_ms=step.grace_ms,
        left_width=len(left.schema.value),
        right_width=len(right.schema.value),
        placeholder=_placeholder(schema, left, right),
        window_size_ms=left.window.size_ms if left.window else None,
    )
    return _joined(step, build, left, right, schema, operator, is_table=False)


def stream_table_join_v1(step: StreamTableJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Look each row of a stream up in a table."""
    left = replace(left, key_codec=KeyCodec.of(step.internal_formats))
    schema = schema_after(build, step, left, right)
    operator = StreamTableJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(build, left),
        left_width=len(left.schema.value),
        right_width=len(right.schema.value),
        placeholder=_placeholder(schema, left, right),
        window_size_ms=left.window.size_ms if left.window else None,
    )
    return _joined(step, build, left, right, schema, operator, is_table=False)


def table_table_join_v1(step: TableTableJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Join two tables on their keys."""
    schema = schema_after(build, step, left, right)
    operator = TableJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(build, left),
        left_width=len(left.schema.value),
        right_width=len(right.schema.value),
        placeholder=_placeholder(schema, left, right),
    )
    return _joined(step, build, left, right, schema, operator, is_table=True)


def fk_table_table_join_v1(step: FkTableTableJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Join a table to the key of another."""
    expression: Expression = step.left_join_expression or ColumnRef(step.left_join_column_name or "")
    schema = schema_after(build, step, left, right)
    left = _with_foreign_key(step, build, left, right, expression)
    operator = ForeignKeyJoin(
        join_type=step.join_type,
        key_bytes=key_bytes(build, left),
        foreign_key_bytes=key_bytes(build, right),
        left_width=len(left.schema.value),
        right_width=len(right.schema.value),
    )

    def make(relation: int, level: int) -> tuple[Operator, Handle]:
        old = step is not build.unread
        output = replace(left, relation=relation, level=level, schema=schema, is_table=True, has_old=old, extra=())
        return operator, output

    return build.stateful(make, (left, right), build.logger(step))


def _with_foreign_key(
    step: FkTableTableJoinV1, build: QueryBuild, left: Handle, right: Handle, expression: Expression
) -> Handle:
    """Add the foreign key to each left row; NULL where it fails."""
    context = build.context(left, nested=False)
    bound = build.bind(expression, scope_of(left.schema))
    message = f"Error calculating left join expression: `{format_expression(expression)}`."
    tree = compile_closed(bound, context, message)
    column = Column(right.schema.key[0].name, right.schema.key[0].type, Role.VALUE)
    row = left.part("v")
    extra = s.if_(s.is_null(row), s.NULL, s.named_struct([(column.name, s.cast(tree, column.type))]))
    operation = Operation(
        fields=(*left.unchanged(), ("x", extra)), faults=present(context.faults, row), logger=build.logger(step)
    )
    return build.apply(left, operation, replace(left, extra=(column,)))


def _joined(
    step: AnyJoin, build: QueryBuild, left: Handle, right: Handle, schema: Schema, operator: Operator, *, is_table: bool
) -> Handle:
    old = is_table and step is not build.unread

    def make(relation: int, level: int) -> tuple[Operator, Handle]:
        output = replace(
            left,
            relation=relation,
            level=level,
            schema=schema,
            is_table=is_table,
            has_old=old,
            has_old_key=False,
            extra=(),
        )
        return operator, output

    return build.stateful(make, (left, right), build.logger(step))


def _placeholder(schema: Schema, left: Handle, right: Handle) -> bool:
    return len(schema.value) > len(left.schema.value) + len(right.schema.value)
