"""Timestamps taken from a column, at sources and at sinks."""

from __future__ import annotations

from engine.errors import PlanError
from engine.plan.schemas import scope_of
from engine.plan.step import TimestampColumn
from engine.spark import sqltree as s
from engine.spark.expressions import compile_expression
from engine.spark.group import QueryBuild
from engine.spark.handles import Handle
from engine.spark.sqltree import Tree
from engine.sql.expressions import ColumnRef, Expression, FunctionCall, StringLiteral
from engine.types import sql_types as t


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
