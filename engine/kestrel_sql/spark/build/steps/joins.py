"""The builder of the joining step by foreign key."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.dataflow.joins import (
    foreign_key,
    foreign_key_join,
)
from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1
from kestrel_sql.spark.build.projections import present
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.expressions import compile_closed
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import Operation
from kestrel_sql.types.schema import Column, Role


def fk_table_table_join_v1(step: FkTableTableJoinV1, build: QueryBuild, left: Handle, right: Handle) -> Handle:
    """Join a table to the key of another."""
    left = _with_foreign_key(step, build, left, right)
    return build.stateful(foreign_key_join(step, build, left, right), (left, right), build.logger(step))


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
