"""Computes the schema of the rows that each step emits (rules P6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kestrel_sql.errors import PlanError, TypeMismatchError, did_you_mean
from kestrel_sql.plan.column_names import key_columns
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.aggregates import (
    StreamAggregateV1,
    StreamWindowedAggregateV1,
    TableAggregateV1,
    TableSuppressV1,
)
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1, StreamHeadersV1, TableHeadersV1
from kestrel_sql.plan.steps.sinks import StreamSinkV1, TableSinkV1
from kestrel_sql.plan.steps.sources import (
    StreamSourceV1,
    TableSourceV1,
    TableSourceV2,
    WindowedStreamSourceV1,
    WindowedTableSourceV1,
)
from kestrel_sql.plan.steps.streams import (
    StreamFilterV1,
    StreamFlatMapV1,
    StreamGroupByKeyV1,
    StreamGroupByV1,
    StreamGroupByV2,
    StreamSelectKeyV1,
    StreamSelectKeyV2,
    StreamSelectV1,
)
from kestrel_sql.plan.steps.tables import TableFilterV1, TableGroupByV1, TableGroupByV2, TableSelectKeyV1, TableSelectV1
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, NullLiteral
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.schema import PSEUDO_COLUMNS, WINDOW_BOUNDS, Column, Role, Schema
from kestrel_sql.types.sql_types import STRING, SqlType, quote

T = TypeVar("T")

Typer = Callable[[Expression, Mapping[str, SqlType]], SqlType | None]
"""Returns the type of an expression over named columns, None for an untyped NULL."""


def result_schema(step: Step, typer: Typer) -> Schema:
    """Compute the schema of `step` from its sources on.

    Raises:
        PlanError: a field of a step does not fit the step's inputs.
        TypeMismatchError: an expression is an untyped NULL.
    """
    return step_schema(step, [result_schema(source, typer) for source in step.upstream], typer)


def step_schema(step: Step, inputs: Sequence[Schema], typer: Typer) -> Schema:
    """Compute the schema of `step` from those of its upstream steps (left before right); raises as `result_schema`."""
    return _RULES[type(step)](step, inputs, typer)


def scope_of(schema: Schema) -> Mapping[str, SqlType]:
    """The columns that expressions can name: the value columns, which include copies of the key columns."""
    return {column.name: column.type for column in schema.value}


def source_columns(schema: Schema, *, pseudo_version: int, windowed: bool) -> Schema:
    """Return the declared schema with the value columns that a source step appends (rules P6.1)."""
    bounds = WINDOW_BOUNDS if windowed else ()
    copies = tuple(Column(c.name, c.type) for c in schema.key)
    headers = tuple(Column(c.name, c.type) for c in schema.headers)
    values = (*schema.value, *headers, *PSEUDO_COLUMNS[pseudo_version], *copies, *bounds)
    return Schema((*schema.key, *values))


def _source(step: Any, inputs: Sequence[Schema], typer: Typer) -> Schema:
    windowed = isinstance(step, WindowedStreamSourceV1 | WindowedTableSourceV1)
    return source_columns(step.source_schema, pseudo_version=step.pseudo_column_version, windowed=windowed)


def _same(step: Any, inputs: Sequence[Schema], typer: Typer) -> Schema:
    return inputs[0]


def _select(step: Any, inputs: Sequence[Schema], typer: Typer) -> Schema:
    (source,) = inputs
    scope = scope_of(source)
    names = step.key_column_names or tuple(c.name for c in source.key)
    if len(names) != len(source.key):
        raise misfit(step, "keyColumnNames", f"expected {len(source.key)} names, one per key column, got {len(names)}")
    keys = [Column(name, c.type, Role.KEY) for name, c in zip(names, source.key, strict=True)]
    selected = getattr(step, "selected_keys", None)
    if selected is not None:
        keys = [c for c in keys if c.name in selected]
    values = [Column(item.alias, _typed(item.expression, scope, typer)) for item in step.select_expressions]
    return Schema((*keys, *values))


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


def _typed(expression: Expression, scope: Mapping[str, SqlType], typer: Typer) -> SqlType:
    sql_type = typer(expression, scope)
    if sql_type is None:
        raise TypeMismatchError(
            "Can't infer a type of null. Please explicitly cast it to a required type, e.g. CAST(null AS VARCHAR)."
        )
    return sql_type


def _flat_map(step: StreamFlatMapV1, inputs: Sequence[Schema], typer: Typer) -> Schema:
    (source,) = inputs
    scope = scope_of(source)
    results = [Column(f"KSQL_SYNTH_{i}", _typed(call, scope, typer)) for i, call in enumerate(step.table_functions)]
    return Schema((*source.columns, *results))


def _select_key_v1(step: StreamSelectKeyV1, inputs: Sequence[Schema], typer: Typer) -> Schema:
    (source,) = inputs
    key = Column("ROWKEY", _typed(step.key_expression, scope_of(source), typer), Role.KEY)
    return Schema((key, *source.value))


def _select_key_v2(step: Any, inputs: Sequence[Schema], typer: Typer) -> Schema:
    (source,) = inputs
    if all(isinstance(expression, NullLiteral) for expression in step.key_expression):
        return Schema(source.value)
    keys = key_columns(step.key_expression, source, lambda e: _typed(e, scope_of(source), typer))
    appended = [
        Column(key.name, key.type)
        for key, expression in zip(keys, step.key_expression, strict=True)
        if not isinstance(expression, ColumnRef)
    ]
    return Schema((*keys, *source.value, *appended))


def _group_by_v1(step: Any, inputs: Sequence[Schema], typer: Typer) -> Schema:
    if len(step.group_by_expressions) == 1:
        return _group_by_v2(step, inputs, typer)
    (source,) = inputs
    taken = {c.name for c in source.columns}
    name = next(n for n in (f"KSQL_COL_{i}" for i in range(len(taken) + 1)) if n not in taken)
    return Schema((Column(name, STRING, Role.KEY), *source.value))


def _group_by_v2(step: Any, inputs: Sequence[Schema], typer: Typer) -> Schema:
    (source,) = inputs
    keys = key_columns(step.group_by_expressions, source, lambda e: _typed(e, scope_of(source), typer))
    return Schema((*keys, *source.value))


def _aggregate(step: Any, inputs: Sequence[Schema], typer: Typer) -> Schema:
    (source,) = inputs
    scope = scope_of(source)
    plain = [Column(name, of_column(step, "nonAggregateColumns", name, scope)) for name in step.non_aggregate_columns]
    results = [
        Column(f"KSQL_AGG_VARIABLE_{i}", _typed(call, scope, typer))
        for i, call in enumerate(step.aggregation_functions)
    ]
    bounds = WINDOW_BOUNDS if isinstance(step, StreamWindowedAggregateV1) else ()
    return Schema((*source.key, *plain, *results, *bounds))


def _join(step: Any, inputs: Sequence[Schema], typer: Typer) -> Schema:
    left, right = inputs
    if not left.key or not right.key:
        raise misfit(step, "leftSource" if not left.key else "rightSource", "the source of a join needs a key column")
    key = Column(step.key_name, left.key[0].type, Role.KEY)
    first, second = (right, left) if step.join_type is JoinType.RIGHT else (left, right)
    values = (*first.value, *second.value)
    # Expressions name value columns only, so a key without a copy among them gets a column that is always null.
    extra = () if any(c.name == key.name for c in values) else (Column(key.name, key.type),)
    return Schema((key, *values, *extra))


def _fk_join(step: FkTableTableJoinV1, inputs: Sequence[Schema], typer: Typer) -> Schema:
    left, right = inputs
    if len(right.key) != 1:
        raise misfit(
            step, "rightSource", f"the right side of a foreign-key join needs one key column, not {len(right.key)}"
        )
    return Schema((*left.key, *left.value, *right.value))


_RULES: Mapping[type[Step], Callable[[Any, Sequence[Schema], Typer], Schema]] = {
    StreamSourceV1: _source,
    WindowedStreamSourceV1: _source,
    TableSourceV1: _source,
    TableSourceV2: _source,
    WindowedTableSourceV1: _source,
    KafkaStreamSourceV1: _source,
    KafkaTableSourceV1: _source,
    StreamFilterV1: _same,
    TableFilterV1: _same,
    StreamSelectV1: _select,
    TableSelectV1: _select,
    StreamFlatMapV1: _flat_map,
    StreamSelectKeyV1: _select_key_v1,
    StreamSelectKeyV2: _select_key_v2,
    TableSelectKeyV1: _select_key_v2,
    StreamGroupByKeyV1: _same,
    StreamGroupByV1: _group_by_v1,
    TableGroupByV1: _group_by_v1,
    StreamGroupByV2: _group_by_v2,
    TableGroupByV2: _group_by_v2,
    StreamAggregateV1: _aggregate,
    StreamWindowedAggregateV1: _aggregate,
    TableAggregateV1: _aggregate,
    TableSuppressV1: _same,
    StreamStreamJoinV1: _join,
    StreamTableJoinV1: _join,
    TableTableJoinV1: _join,
    FkTableTableJoinV1: _fk_join,
    StreamHeadersV1: _same,
    TableHeadersV1: _same,
    StreamSinkV1: _same,
    TableSinkV1: _same,
}
