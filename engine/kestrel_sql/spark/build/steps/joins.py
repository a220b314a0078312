"""Builders of the joining steps."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.dataflow.joins import (
    foreign_key,
    foreign_key_join,
    stream_stream_join,
    stream_table_join,
    table_table_join,
)
from kestrel_sql.dataflow.keys import is_delimited
from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.plan.step import Formats
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1
from kestrel_sql.spark.build.projections import present
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.expressions import compile_closed
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import Operation
from kestrel_sql.types.schema import Column, Role


def stream_stream_join_v1(step: StreamStreamJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Join two streams within a time span."""
    left = _repartitioned(step.left_internal_formats, build, left)
    right = _repartitioned(step.right_internal_formats, build, right)
    return build.stateful(stream_stream_join(step, build, left, right), (left, right), build.logger(step))


def stream_table_join_v1(step: StreamTableJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Look each row of a stream up in a table."""
    left = _repartitioned(step.internal_formats, build, left)
    return build.stateful(stream_table_join(step, build, left, right), (left, right), build.logger(step))


def table_table_join_v1(step: TableTableJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Join two tables on their keys."""
    return build.stateful(table_table_join(step, build, left, right), (left, right), build.logger(step))


def fk_table_table_join_v1(step: FkTableTableJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Join a table to the key of another."""
    left = _with_foreign_key(step, build, left, right)
    return build.stateful(foreign_key_join(step, build, left, right), (left, right), build.logger(step))


def _repartitioned(formats: Formats, build: QueryBuild, source: Handle) -> Handle:
    """Drop the rows whose keys an internal topic loses."""
    if not is_delimited(source, formats) or len(source.schema.key) > 1:
        return source
    present = s.is_not_null(source.part("k", source.schema.key[0].name))
    return build.apply(source, Operation(fields=source.unchanged(), keep=present), source)


def _with_foreign_key(step: FkTableTableJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Add the foreign key to each left row; NULL where it fails."""
    expression, message = foreign_key(step)
    context = build.context(left, nested=False)
    tree = compile_closed(build.bind(expression, scope_of(left.schema)), context, message)
    column = Column(right.schema.key[0].name, right.schema.key[0].type, Role.VALUE)
    row = left.part("v")
    extra = s.if_(s.is_null(row), s.NULL, s.named_struct([(column.name, s.cast(tree, column.type))]))
    operation = Operation(
        fields=(*left.unchanged(), ("x", extra)), faults=present(context.faults, row), logger=build.logger(step)
    )
    return build.apply(left, operation, replace(left, extra=(column,)))
