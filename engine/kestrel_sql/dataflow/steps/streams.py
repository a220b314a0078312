"""The row-wise and re-keying steps of streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kestrel_sql.dataflow.evaluation import Expressions, StepLog, closed, reports
from kestrel_sql.dataflow.graph import Flow, GraphQuery
from kestrel_sql.dataflow.projections import Grouping, NewKey, Predicate, Projection, log_of
from kestrel_sql.dataflow.relation import KeyCodec
from kestrel_sql.dataflow.rows import Made, Row, Rows
from kestrel_sql.expressions.columns import Column, Evaluate, Failures
from kestrel_sql.expressions.compiler import mapped, tabular_body
from kestrel_sql.functions.declaration import Nulls
from kestrel_sql.operators.operator import Key
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
from kestrel_sql.sql.nodes.expressions import ColumnRef, FunctionCall, NullLiteral
from kestrel_sql.types.schema import Schema


def stream_filter_v1(step: StreamFilterV1, query: GraphQuery, source: Flow) -> Flow:
    """Drop the rows for which the predicate is not true, and NULL rows."""
    holds = Predicate(query, source, step, step.filter_expression)

    def apply(made: Made, rows: Rows) -> Rows:
        kept = holds(made, rows, [row.value for row in rows])
        return [row for row, held in zip(rows, kept, strict=True) if held]

    return query.then(source, apply, source)


def stream_select_v1(step: StreamSelectV1, query: GraphQuery, source: Flow) -> Flow:
    """Compute the value columns; NULL rows stay NULL rows."""
    project = Projection(query, source, step, step.select_expressions)
    schema = query.schema(step, source)
    renamed = renamed_key(source.schema, schema, step.key_column_names)

    def apply(made: Made, rows: Rows) -> Rows:
        values = project(made, rows, [row.value for row in rows])
        return [row.with_parts(renamed(row.key), value, None) for row, value in zip(rows, values, strict=True)]

    return query.then(source, apply, replace(source, schema=schema))


def renamed_key(before: Schema, after: Schema, names: Sequence[str] | None) -> Callable[[Key | None], Key | None]:
    """Return what a projection makes of a key: the columns that it keeps; a NULL key stays NULL."""
    kept = {column.name for column in after.key}
    at = [i for i, new in enumerate(names or [column.name for column in before.key]) if new in kept]
    if len(at) == len(before.key):
        return lambda key: key
    return lambda key: None if key is None else tuple(key[i] for i in at)


def stream_flat_map_v1(step: StreamFlatMapV1, query: GraphQuery, source: Flow) -> Flow:
    """Replace each row by the rows of its table functions, combined by position; shorter lists are padded with NULL."""
    log, expressions = log_of(query, step), Expressions(query, source, nested=True)
    calls = [_Exploded(query, log, expressions, call) for call in step.table_functions]

    def apply(made: Made, rows: Rows) -> Rows:
        full = [row for row in rows if row.value is not None]
        if not full:
            return []
        lists = [call(made, full) for call in calls]
        found = []
        for row, *given in zip(full, *lists, strict=True):
            arrays = [each or [] for each in given]
            for at in range(max(map(len, arrays))):
                items = (each[at] if at < len(each) else None for each in arrays)
                found.append(replace(row, value=(*(row.value or ()), *items), ordinal=(*row.ordinal, at)))
        return found

    return query.then(source, apply, replace(source, schema=query.schema(step, source)))


class _Exploded:
    """The lists that a table function returns; NULL where it fails."""

    def __init__(self, query: GraphQuery, log: StepLog, expressions: Expressions, call: FunctionCall) -> None:
        bound = expressions.bind(call)
        self._log, self._expressions = log, expressions
        self._arguments: list[Evaluate] = [expressions.of(child) for child in bound.children]
        self._body = tabular_body(bound, query.function_settings)
        self._required = bound.required
        self._message = f"Table function {format_expression(call)} threw an exception"

    def __call__(self, made: Made, rows: Rows) -> Column:
        values = [row.value for row in rows if row.value is not None]
        columns = self._expressions.columns(values, reports(self._log, made, rows))
        given = [
            closed(argument, columns, self._failed(made, rows, f"Failed to evaluate table function parameter {at}"))
            for at, argument in enumerate(self._arguments)
        ]

        def call(*arguments: Any) -> Any:
            if any(needed and value is None for needed, value in zip(self._required, arguments, strict=False)):
                raise ValueError("an argument is NULL")
            return self._body(*arguments)

        failures: Failures = {}
        found = mapped(call, given, failures, Nulls.BODY)
        for at, error in sorted(failures.items()):
            self._log.failed(made, rows[at], self._message, error)
        return found

    def _failed(self, made: Made, rows: Rows, message: str) -> Callable[[int, Exception], None]:
        return lambda at, error: self._log.failed(made, rows[at], message, error)


def stream_select_key_v1(step: StreamSelectKeyV1, query: GraphQuery, source: Flow) -> Flow:
    """Re-key to ROWKEY, without a window; NULL rows and rows with a NULL key are dropped."""
    new_key = NewKey(query, source, step, [step.key_expression])

    def apply(made: Made, rows: Rows) -> Rows:
        return [
            replace(row, key=key, window=None)
            for row, key in zip(rows, new_key(made, rows), strict=True)
            if row.value is not None and key[0] is not None
        ]

    return query.then(source, apply, replace(source, schema=query.schema(step, source), window=None, rekeyed=True))


def stream_select_key_v2(step: StreamSelectKeyV2, query: GraphQuery, source: Flow) -> Flow:
    """Re-key; computed components are appended to the value as well."""
    schema = query.schema(step, source)
    if all(isinstance(expression, NullLiteral) for expression in step.key_expression):
        return query.each(source, lambda row: row.with_key(None), replace(source, schema=schema))
    new_key = NewKey(query, source, step, step.key_expression)
    appended = [at for at, each in enumerate(step.key_expression) if not isinstance(each, ColumnRef)]

    def changed(row: Row, key: Key) -> Row:
        if row.value is None or not appended:
            return row.with_key(key)
        return row.with_parts(key, (*row.value, *(key[at] for at in appended)), None)

    def apply(made: Made, rows: Rows) -> Rows:
        return [changed(row, key) for row, key in zip(rows, new_key(made, rows), strict=True)]

    return query.then(source, apply, replace(source, schema=schema, rekeyed=True))


def stream_group_by_key_v1(step: StreamGroupByKeyV1, query: GraphQuery, source: Flow) -> Flow:
    """Group by the existing key, which changes no rows; the aggregate drops NULL keys."""
    return replace(source, key_codec=KeyCodec.of(step.internal_formats))


def stream_group_by_v2(step: StreamGroupByV2, query: GraphQuery, source: Flow) -> Flow:
    """Group by expressions; a row with a NULL or failing component is dropped."""
    return _grouped(step, query, source, joined=False)


def stream_group_by_v1(step: StreamGroupByV1, query: GraphQuery, source: Flow) -> Flow:
    """Group as releases up to 6.2 did: several expressions make one STRING key."""
    return _grouped(step, query, source, joined=True)


def _grouped(step: StreamGroupByV1 | StreamGroupByV2, query: GraphQuery, source: Flow, *, joined: bool) -> Flow:
    group = Grouping(query, source, step, step.group_by_expressions, joined=joined)

    def apply(made: Made, rows: Rows) -> Rows:
        keys = group(made, rows, [row.value for row in rows])
        return [row.with_key(key) for row, key in zip(rows, keys, strict=True) if key is not None]

    codec = KeyCodec.of(step.internal_formats)
    facts = replace(source, schema=query.schema(step, source), key_codec=codec, window=None, rekeyed=True)
    return query.then(source, apply, facts)
