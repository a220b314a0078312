"""Builders of the row-wise and re-keying steps of streams."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from kestrel_sql.dataflow.relation import KeyCodec
from kestrel_sql.functions.declaration import Checked, Runs, Tabular
from kestrel_sql.plan.schemas import scope_of
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
from kestrel_sql.spark.build.grouping import grouped_key
from kestrel_sql.spark.build.projections import key_struct, predicate, present, projection, rekeyed, renamed_key
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.calls import call_types, python_result
from kestrel_sql.spark.compile.context import Context, Fault
from kestrel_sql.spark.compile.expressions import compile_closed
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import POSITION, Operation
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import ColumnRef, FunctionCall, NullLiteral
from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import Array


def stream_filter_v1(step: StreamFilterV1, build: QueryBuild, source: Handle) -> Handle:
    """Drop the rows for which the predicate is not true, and NULL rows."""
    keep, faults = predicate(build, source, step.filter_expression, "v")
    operation = Operation(fields=source.unchanged(), keep=keep, faults=faults, logger=build.logger(step))
    return build.apply(source, operation, source)


def stream_select_v1(step: StreamSelectV1, build: QueryBuild, source: Handle) -> Handle:
    """Compute the value columns; NULL rows stay NULL rows."""
    value, faults = projection(build, source, step.select_expressions, "v")
    schema = build.schema(step, source)
    names = step.key_column_names or tuple(c.name for c in source.schema.key)
    key = renamed_key(source, names, [c.name for c in schema.key])
    operation = Operation(fields=(*key, ("v", value)), faults=faults, logger=build.logger(step))
    return build.apply(source, operation, replace(source, schema=schema))


def stream_flat_map_v1(step: StreamFlatMapV1, build: QueryBuild, source: Handle) -> Handle:
    """Replace each row by the rows of its table functions, combined by position; shorter lists are padded with NULL."""
    context = build.context(source, nested=True)
    arrays = [(f"_{i}", _rows_of(build, source, call, context)) for i, call in enumerate(step.table_functions)]
    computed = Operation(
        fields=(*source.unchanged(), ("f", s.named_struct(arrays))),
        keep=s.is_not_null(source.part("v")),
        faults=present(context.faults, source.part("v")),
        logger=build.logger(step),
    )
    build.apply(source, computed, source)
    schema = build.schema(step, source)
    lists = [source.part("f", name) for name, _ in arrays]
    sizes = [s.call("coalesce", s.call("nullif", s.call("size", a), s.integer(-1)), s.integer(0)) for a in lists]
    position = s.binary(exp.Add, POSITION, s.integer(1))
    kept = [(c.name, source.part("v", c.name)) for c in source.schema.value]
    made = [(f"KSQL_SYNTH_{i}", s.call("try_element_at", a, position)) for i, a in enumerate(lists)]
    exploded = Operation(
        fields=(("k", source.part("k")), ("v", s.named_struct([*kept, *made]))),
        rows=s.call("greatest", *sizes, s.integer(0)),
        logger=build.logger(step),
    )
    return build.apply(source, exploded, replace(source, schema=schema))


def _rows_of(build: QueryBuild, source: Handle, call: FunctionCall, context: Context) -> Tree:
    """The list that a table function returns; NULL where it fails."""
    bound = build.bind(call, scope_of(source.schema))
    function = bound.function
    assert isinstance(function, Tabular)  # noqa: S101 - the planner puts nothing else here
    labels = (f"Failed to evaluate table function parameter {i}" for i in range(len(bound.children)))
    arguments = [
        Checked(compile_closed(child, context, label)) for child, label in zip(bound.children, labels, strict=True)
    ]
    types = call_types(bound, context)
    types = replace(types, returns=Array(types.returns))
    if function.runs is Runs.PYTHON:
        result = python_result(function, types, arguments, context)
    else:
        given = [argument.value for argument in arguments]
        made = function.body(types, *given) if function.with_types else function.body(*given)
        result = made if isinstance(made, Checked) else Checked(made)
    missing = [s.is_null(a.value) for required, a in zip(bound.required, arguments, strict=False) if required]
    fails = s.any_of([*missing, result.fails])
    if fails is None:
        return result.value
    context.faults.append(Fault(fails, f"Table function {format_expression(call)} threw an exception"))
    return s.if_(fails, s.null_of(types.returns), result.value)


def stream_select_key_v1(step: StreamSelectKeyV1, build: QueryBuild, source: Handle) -> Handle:
    """Re-key to ROWKEY, without a window; NULL rows and rows with a NULL key are dropped."""
    (tree,), faults = rekeyed(build, source, [step.key_expression])
    schema = build.schema(step, source)
    keep = s.all_of(s.is_not_null(source.part("v")), s.is_not_null(tree))
    operation = Operation(
        fields=(*key_struct(schema.key, [tree]), ("v", source.part("v"))),
        keep=keep,
        faults=faults,
        logger=build.logger(step),
    )
    return build.apply(source, operation, replace(source, schema=schema, window=None, rekeyed=True))


def stream_select_key_v2(step: StreamSelectKeyV2, build: QueryBuild, source: Handle) -> Handle:
    """Re-key; computed components are appended to the value as well."""
    schema = build.schema(step, source)
    if all(isinstance(expression, NullLiteral) for expression in step.key_expression):
        operation = Operation(fields=(("k", s.NULL), ("v", source.part("v"))), logger=build.logger(step))
        return build.apply(source, operation, replace(source, schema=schema))
    trees, faults = rekeyed(build, source, step.key_expression)
    appended = [
        (column.name, tree)
        for column, tree, expression in zip(schema.key, trees, step.key_expression, strict=True)
        if not isinstance(expression, ColumnRef)
    ]
    value = source.part("v")
    if appended:
        kept = [(c.name, source.part("v", c.name)) for c in source.schema.value]
        value = s.if_(s.is_null(value), s.NULL, s.named_struct([*kept, *appended]))
    operation = Operation(
        fields=(*key_struct(schema.key, trees), ("v", value)), faults=faults, logger=build.logger(step)
    )
    return build.apply(source, operation, replace(source, schema=schema, rekeyed=True))


def stream_group_by_key_v1(step: StreamGroupByKeyV1, build: QueryBuild, source: Handle) -> Handle:
    """Group by the existing key, which changes no rows; the aggregate drops NULL keys."""
    return replace(source, key_codec=KeyCodec.of(step.internal_formats))


def stream_group_by_v2(step: StreamGroupByV2, build: QueryBuild, source: Handle) -> Handle:
    """Group by expressions; a row with a NULL or failing component is dropped."""
    schema = build.schema(step, source)
    key, usable, faults = grouped_key(build, source, step.group_by_expressions, schema, "v", joined=False)
    return _grouped(step, build, source, schema, key, usable, faults)


def stream_group_by_v1(step: StreamGroupByV1, build: QueryBuild, source: Handle) -> Handle:
    """Group as releases up to 6.2 did: several expressions make one STRING key."""
    schema = build.schema(step, source)
    key, usable, faults = grouped_key(build, source, step.group_by_expressions, schema, "v", joined=True)
    return _grouped(step, build, source, schema, key, usable, faults)


def _grouped(
    step: StreamGroupByV1 | StreamGroupByV2,
    build: QueryBuild,
    source: Handle,
    schema: Schema,
    key: Tree,
    usable: Tree,
    faults: tuple[Fault, ...],
) -> Handle:
    operation = Operation(
        fields=(("k", key), ("v", source.part("v"))), keep=usable, faults=faults, logger=build.logger(step)
    )
    codec = KeyCodec.of(step.internal_formats)
    return build.apply(source, operation, replace(source, schema=schema, key_codec=codec, window=None, rekeyed=True))
