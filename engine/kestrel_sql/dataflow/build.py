"""Builds the graph of queries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, get_type_hints

from msgspec.structs import replace

from kestrel_sql.dataflow.graph import Graph, GraphQuery
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.queryable import build_queryable
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Cells, Log, Part, Rows
from kestrel_sql.dataflow.steps import aggregates, joins, kafka, sinks, sources, streams, tables
from kestrel_sql.dataflow.typed_values import converter
from kestrel_sql.expressions.columns import Column
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.sinks import TableSinkV1
from kestrel_sql.types.own_scales import at_declared_scales, has_own_scales, with_own_scales
from kestrel_sql.types.schema import Column as SchemaColumn


def _collect_builders(*families: ModuleType) -> Mapping[type[Step], Callable[..., Any]]:
    """Index the public functions of `families`, `builder(step, query, *inputs)`, by the step class they annotate.

    Raises:
        ValueError: a step has two builders.
    """
    table: dict[type[Step], Callable[..., Any]] = {}
    for family in families:
        for name, function in inspect.getmembers(family, inspect.isfunction):
            if function.__module__ != family.__name__ or name.startswith("_"):
                continue
            step: Any = get_type_hints(function).get("step")
            if not (isinstance(step, type) and issubclass(step, Step)) or step is Step:
                continue
            if step in table:
                raise ValueError(f"{step.__name__} has two builders: {table[step].__name__} and {name}")
            table[step] = function
    return MappingProxyType(table)


BUILDERS = _collect_builders(sources, kafka, streams, tables, aggregates, joins, sinks)


def build_graph(runs: Iterable[QueryRun], functions: Registry) -> Graph:
    """Build the graph of some queries.

    Raises:
        StatementError: an expression of a plan has a type error.
    """
    graph = Graph(functions)
    for number, run in enumerate(runs):
        root = run.plan.physical_plan
        graph.plans[number] = run.plan
        query = GraphQuery(
            graph=graph,
            number=number,
            query_id=run.plan.query_id,
            settings=run.settings,
            functions=functions,
            serde=run.serde,
            unread=unread_table(root),
        )
        graph.ends[number] = (
            build_queryable(root, query, build_step, replaceable=run.replaceable)
            if run.queryable
            else build_step(root, query)
        )
    for sink in graph.sinks:
        graph.lift(sink.relation, len(graph.stages) - 1)
    return graph


def unread_table(root: Step) -> Step | None:
    """Return the step whose changes reach the sink `root` through projections only; no step reads its old rows."""
    if not isinstance(root, TableSinkV1):
        return None
    step = root.source
    while not step.reads_old_rows:
        (step,) = step.upstream
    return step


def build_step(step: Step, query: GraphQuery) -> Relation:
    """Build the steps upstream of `step`, then `step` itself, and return its result."""
    builder, inputs = BUILDERS[type(step)], [build_step(source, query) for source in step.upstream]
    if step.row_by_row:
        built: Relation = builder(step, query, *inputs)
        return built
    return rescaled(query, builder(step, query, *(rescaled(query, each) for each in inputs)))


def rescaled(query: GraphQuery, source: Relation) -> Relation:
    """Give DECIMALs with scales of their own the scale of their type, as a serde does (rule U4.7)."""
    if not any(has_own_scales(column.type) for column in source.schema.columns):
        return source
    of_key, of_value = _scaler(source.schema.key), _scaler(source.schema.value)

    def apply(log: Log, rows: Rows) -> Rows:
        def scaled(part: Part | None, change: Callable[[int, Cells], Column | None]) -> Part | None:
            return None if part is None else part.changed(change)

        return replace(
            rows,
            key=rows.key.changed(of_key),
            value=rows.value.changed(of_value),
            old=scaled(rows.old, of_value),
            old_key=scaled(rows.old_key, of_key),
        )

    facts = replace(source, schema=at_declared_scales(source.schema))
    return query.then(source, apply, facts, "bring DECIMALs to the scales of their types")


def _scaler(columns: Sequence[SchemaColumn]) -> Callable[[int, Cells], Column | None]:
    scaled = [converter(with_own_scales(each.type, False)) if has_own_scales(each.type) else None for each in columns]

    def change(place: int, cells: Cells) -> Column | None:
        of = scaled[place]
        return None if of is None else [None if value is None else of(value) for value in cells.values()]

    return change
