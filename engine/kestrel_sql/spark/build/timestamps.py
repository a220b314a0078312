"""Timestamps from a column, in sources and sinks."""

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
    """Return the timestamp (ms) in a column of a row, and the condition that the row has none.

    BIGINT and TIMESTAMP columns contain the timestamp itself; STRING columns are parsed with the Java pattern of
    `column`.

    Raises:
        PlanError: the source has no such column.
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
