"""What the rules of steps for the schemas of their rows have in common (rules P6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from kestrel_sql.errors import PlanError, TypeMismatchError, did_you_mean
from kestrel_sql.plan.column_names import key_columns
from kestrel_sql.plan.step import SelectItem, Step, Typer
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, FunctionCall, NullLiteral
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.schema import PSEUDO_COLUMNS, WINDOW_BOUNDS, Column, Role, Schema
from kestrel_sql.types.sql_types import STRING, SqlType, quote

T = TypeVar("T")


def scope_of(schema: Schema) -> Mapping[str, SqlType]:
    """The columns that expressions can name: the value columns, which include copies of the key columns."""
    return {column.name: column.type for column in schema.value}


def misfit(step: Step, field: str, message: str, hint: str | None = None) -> PlanError:
    """Make the error for a field of a step that does not fit the step's inputs."""
    return PlanError(message, path=f"$..{step.tag}[{step.query_context}].{field}", hint=hint)


def of_column(step: Step, field: str, name: str, columns: Mapping[str, T]) -> T:
    """Look up the column `name`, which stands in the field `field` of `step`.

    Raises:
        PlanError: `columns` has no such column.
    """
    if name not in columns:
        raise misfit(step, field, f"column {quote(name)} does not exist", did_you_mean(name, columns))
    return columns[name]


def typed(expression: Expression, scope: Mapping[str, SqlType], typer: Typer) -> SqlType:
    """Return the type of an expression.

    Raises:
        TypeMismatchError: the expression is an untyped NULL.
    """
    sql_type = typer(expression, scope)
    if sql_type is None:
        raise TypeMismatchError(
            "Can't infer a type of null. Please explicitly cast it to a required type, e.g. CAST(null AS VARCHAR)."
        )
    return sql_type


def source_columns(schema: Schema, *, pseudo_version: int, windowed: bool) -> Schema:
    """Return the declared schema with the value columns that a source step appends (rules P6.1)."""
    bounds = WINDOW_BOUNDS if windowed else ()
    copies = tuple(Column(c.name, c.type) for c in schema.key)
    headers = tuple(Column(c.name, c.type) for c in schema.headers)
    values = (*schema.value, *headers, *PSEUDO_COLUMNS[pseudo_version], *copies, *bounds)
    return Schema((*schema.key, *values))


def selected(
    step: Step, names: Sequence[str] | None, items: Sequence[SelectItem], source: Schema, typer: Typer
) -> Schema:
    """Return the columns of a projection, whose `names` rename the key columns by position (rules P6.2)."""
    scope = scope_of(source)
    names = names or [column.name for column in source.key]
    if len(names) != len(source.key):
        raise misfit(step, "keyColumnNames", f"expected {len(source.key)} names, one per key column, got {len(names)}")
    keys = [Column(name, column.type, Role.KEY) for name, column in zip(names, source.key, strict=True)]
    return Schema((*keys, *(Column(item.alias, typed(item.expression, scope, typer)) for item in items)))


def rekeyed(expressions: Sequence[Expression], source: Schema, typer: Typer) -> Schema:
    """Return the columns behind a new key; the value has a copy of a key that is no plain column (rule P6.3.2)."""
    if all(isinstance(expression, NullLiteral) for expression in expressions):
        return Schema(source.value)
    found = grouped(expressions, source, typer)
    appended = [
        Column(key.name, key.type)
        for key, expression in zip(found.key, expressions, strict=True)
        if not isinstance(expression, ColumnRef)
    ]
    return Schema((*found.columns, *appended))


def grouped(expressions: Sequence[Expression], source: Schema, typer: Typer) -> Schema:
    """Return the columns of groups, which have one key column for each expression (rule P6.4.1)."""
    keys = key_columns(expressions, source, lambda each: typed(each, scope_of(source), typer))
    return Schema((*keys, *source.value))


def grouped_as_text(expressions: Sequence[Expression], source: Schema, typer: Typer) -> Schema:
    """Return the columns of groups as releases up to 6.2 made them: several expressions are one text (rule P6.4.2)."""
    if len(expressions) == 1:
        return grouped(expressions, source, typer)
    taken = {column.name for column in source.columns}
    name = next(each for each in (f"KSQL_COL_{at}" for at in range(len(taken) + 1)) if each not in taken)
    return Schema((Column(name, STRING, Role.KEY), *source.value))


def aggregated(step: Step, names: Sequence[str], calls: Sequence[FunctionCall], source: Schema, typer: Typer) -> Schema:
    """Return the key, the columns `names`, and the results of calls (rules P6.5)."""
    scope = scope_of(source)
    plain = [Column(name, of_column(step, "nonAggregateColumns", name, scope)) for name in names]
    results = [Column(f"KSQL_AGG_VARIABLE_{at}", typed(call, scope, typer)) for at, call in enumerate(calls)]
    return Schema((*source.key, *plain, *results))


def joined(step: Step, join_type: JoinType, key_name: str, inputs: Sequence[Schema]) -> Schema:
    """Return the columns of both sides of a join, and its key (rules P6.6)."""
    left, right = inputs
    if not left.key or not right.key:
        raise misfit(step, "leftSource" if not left.key else "rightSource", "the source of a join needs a key column")
    key = Column(key_name, left.key[0].type, Role.KEY)
    first, second = (right, left) if join_type is JoinType.RIGHT else (left, right)
    values = (*first.value, *second.value)
    # Expressions name value columns only, so a key without a copy among them gets a column that is always null.
    extra = () if any(column.name == key.name for column in values) else (Column(key.name, key.type),)
    return Schema((key, *values, *extra))
