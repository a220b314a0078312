"""Timestamps taken from a column, at sources and at sinks."""

from __future__ import annotations

from kestrel_sql.errors import PlanError
from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.plan.step import TimestampColumn
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.expressions import compile_expression
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, FunctionCall, StringLiteral
from kestrel_sql.types import sql_types as t


def extracted(build: QueryBuild, handle: Handle, column: TimestampColumn) -> tuple[Tree, Tree]:
    """The timestamp (ms) in a column of the row, and the condition that there is none.

    BIGINT and TIMESTAMP columns hold it as it is; STRING columns are parsed with the column's Java pattern. A column
    of the key is read from the key.
    """
    scope = {**{c.name: c.type for c in handle.schema.key}, **scope_of(handle.schema)}
    reference: Expression = ColumnRef(column.column)
    if column.column not in scope:
        raise PlanError(f"there is no column {t.quote(column.column)}", path="$..timestampColumn.column")
    if scope[column.column] == t.STRING:
        reference = FunctionCall("STRINGTOTIMESTAMP", (reference, StringLiteral(column.format or "")))
    context = build.context(handle, nested=False)
    context.columns = {**handle.keys(), **handle.values()}
    result = compile_expression(build.bind(reference, scope), context)
    value = s.cast(result.value, t.BIGINT)
    unusable = s.any_of([result.fails, s.is_null(value)])
    return value, unusable or s.FALSE
