"""The row-wise and re-keying steps of streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kestrel_sql.dataflow.evaluation import Expressions, StepLog, closed, reports
from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.internal_topics import crossed
from kestrel_sql.dataflow.projections import Grouping, NewKey, Predicate, Projection
from kestrel_sql.dataflow.relation import KeyCodec, Relation
from kestrel_sql.dataflow.rows import Listed, Log, Part, Rows
from kestrel_sql.expressions.columns import Column, Columns, Failures
from kestrel_sql.expressions.compiler import mapped
from kestrel_sql.expressions.sendable import TableCall
from kestrel_sql.functions.declaration import Nulls
from kestrel_sql.plan.step import SelectItem
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
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, FunctionCall, NullLiteral
from kestrel_sql.types.schema import Schema


def stream_filter_v1(step: StreamFilterV1, query: GraphQuery, source: Relation) -> Relation:
    """Drop the rows for which the predicate is not true, and NULL rows."""
    holds = Predicate(query, source, step, step.filter_expression)

    def apply(log: Log, rows: Rows) -> Rows:
        return rows.where(holds(log, rows, rows.value))

    return query.then(source, apply, source, f"filter {format_expression(step.filter_expression)}")


def stream_select_v1(step: StreamSelectV1, query: GraphQuery, source: Relation) -> Relation:
    """Compute the value columns; NULL rows stay NULL rows."""
    project = Projection(query, source, step, step.select_expressions)
    schema = query.schema(step, source)
    kept = kept_keys(source.schema, schema, step.key_column_names)

    def apply(log: Log, rows: Rows) -> Rows:
        return replace(rows, key=rows.key.select(kept), value=project(log, rows, rows.value))

    text = selected_text(step.select_expressions, project.by_values)
    return query.then(source, apply, replace(source, schema=schema), text)


def selected_text(items: Sequence[SelectItem], by_values: Sequence[str]) -> str:
    """Return a projection for people; it names the columns whose expressions have no column bodies."""
    text = f"select {', '.join(f'{format_expression(item.expression)} AS {item.alias}' for item in items)}"
    return f"{text} -- without column bodies: {', '.join(by_values)}" if by_values else text


def listed_text(expressions: Sequence[Expression]) -> str:
    """Return expressions for people."""
    return ", ".join(map(format_expression, expressions))


def kept_keys(before: Schema, after: Schema, names: Sequence[str] | None) -> Sequence[int]:
    """Return the places of the key columns that a projection keeps."""
    kept = {column.name for column in after.key}
    return [at for at, new in enumerate(names or [column.name for column in before.key]) if new in kept]


def stream_flat_map_v1(step: StreamFlatMapV1, query: GraphQuery, source: Relation) -> Relation:
    """Replace each row by the rows of its table functions, combined by position; shorter lists are padded with NULL."""
    step_log, expressions = StepLog.of(query, step), Expressions(query, source, nested=True)
    scope, calls = expressions.scope, [_Exploded(query, step_log, expressions, call) for call in step.table_functions]

    def apply(log: Log, rows: Rows) -> Rows:
        rows = rows.take(rows.value.indices())
        own = range(rows.size)
        columns = scope.of_part(rows.value, own, reports(step_log, log, rows, own))
        lists = [[each or [] for each in call(log, rows, columns)] for call in calls]
        lengths = [max(map(len, each)) for each in zip(*lists, strict=True)]
        places = [(at, position) for at, length in enumerate(lengths) for position in range(length)]
        made = rows.take([at for at, _ in places]).numbered([position for _, position in places])
        items = [
            Listed([each[at][position] if position < len(each[at]) else None for at, position in places])
            for each in lists
        ]
        return replace(made, value=replace(made.value, cells=[*made.value.cells, *items]))

    text = f"flat map {listed_text(step.table_functions)}"
    return query.then(source, apply, replace(source, schema=query.schema(step, source)), text)


class _Exploded:
    """The lists that a table function returns; NULL where it fails."""

    def __init__(self, query: GraphQuery, log: StepLog, expressions: Expressions, call: FunctionCall) -> None:
        bound = expressions.bind(call)
        self._log = log
        self._arguments = [expressions.of(child) for child in bound.children]
        self._body = TableCall(bound, query.function_settings)
        self._message = f"Table function {format_expression(call)} threw an exception"

    def __call__(self, log: Log, rows: Rows, columns: Columns) -> Column:
        given = [
            closed(argument, columns, self._failed(log, rows, f"Failed to evaluate table function parameter {at}"))
            for at, argument in enumerate(self._arguments)
        ]
        failures: Failures = {}
        found = mapped(self._body, given, failures, Nulls.BODY)
        for at, error in sorted(failures.items()):
            self._log.failed(log, rows, at, self._message, error)
        return found

    def _failed(self, log: Log, rows: Rows, message: str) -> Callable[[int, Exception], None]:
        return lambda at, error: self._log.failed(log, rows, at, message, error)


def stream_select_key_v1(step: StreamSelectKeyV1, query: GraphQuery, source: Relation) -> Relation:
    """Re-key to ROWKEY, without a window; NULL rows and rows with a NULL key are dropped."""
    new_key = NewKey(query, source, step, [step.key_expression])

    def apply(log: Log, rows: Rows) -> Rows:
        key = new_key(log, rows)
        new = key.cells[0].values()
        return replace(rows, key=key).take([at for at in rows.value.indices() if new[at] is not None])

    facts = replace(source, schema=query.schema(step, source), window=None, rekeyed=True)
    return query.then(source, apply, facts, f"key {format_expression(step.key_expression)}")


def stream_select_key_v2(step: StreamSelectKeyV2, query: GraphQuery, source: Relation) -> Relation:
    """Re-key; computed components are appended to the value as well."""
    schema = query.schema(step, source)
    if all(isinstance(expression, NullLiteral) for expression in step.key_expression):
        width = len(schema.key)

        def without_key(log: Log, rows: Rows) -> Rows:
            return replace(rows, key=Part.nothing(rows.size, width))

        return query.then(source, without_key, replace(source, schema=schema), "key NULL")
    new_key = NewKey(query, source, step, step.key_expression)
    appended = [at for at, each in enumerate(step.key_expression) if not isinstance(each, ColumnRef)]

    def apply(log: Log, rows: Rows) -> Rows:
        key = new_key(log, rows)
        value = replace(rows.value, cells=[*rows.value.cells, *(key.cells[at] for at in appended)])
        return replace(rows, key=key, value=value)

    facts = replace(source, schema=schema, rekeyed=True)
    return query.then(source, apply, facts, f"key {listed_text(step.key_expression)}")


def stream_group_by_key_v1(step: StreamGroupByKeyV1, query: GraphQuery, source: Relation) -> Relation:
    """Group by the existing key, which changes no rows; the aggregate drops NULL keys."""
    return replace(source, key_codec=KeyCodec.of(step.internal_formats))


def stream_group_by_v2(step: StreamGroupByV2, query: GraphQuery, source: Relation) -> Relation:
    """Group by expressions; a row with a NULL or failing component is dropped."""
    return _grouped(step, query, source, joined=False)


def stream_group_by_v1(step: StreamGroupByV1, query: GraphQuery, source: Relation) -> Relation:
    """Group as releases up to 6.2 did: several expressions make one STRING key."""
    return _grouped(step, query, source, joined=True)


def _grouped(step: StreamGroupByV1 | StreamGroupByV2, query: GraphQuery, source: Relation, *, joined: bool) -> Relation:
    group = Grouping(query, source, step, step.group_by_expressions, joined=joined)

    def apply(log: Log, rows: Rows) -> Rows:
        key = group(log, rows, rows.value)
        return replace(rows, key=key).take(key.indices())

    codec = KeyCodec.of(step.internal_formats)
    facts = replace(source, schema=query.schema(step, source), key_codec=codec, window=None, rekeyed=True)
    grouped = query.then(source, apply, facts, f"group {listed_text(step.group_by_expressions)}")
    return crossed(step.internal_formats, query, grouped)
