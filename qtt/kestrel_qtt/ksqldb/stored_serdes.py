"""The serdes that ksqlDB creates for the topics and stores of a query, by logger name (rules Q16.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import assert_never

import msgspec
from msgspec.structs import replace

from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.declaration import Aggregate
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.plan.step import FormatInfo, Formats, SerdeFeature, Step, WindowInfo, WindowType
from kestrel_sql.plan.steps.aggregates import (
    StreamAggregateV1,
    StreamWindowedAggregateV1,
    TableAggregateV1,
    TableSuppressV1,
)
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1
from kestrel_sql.plan.steps.sinks import StreamSinkV1, TableSinkV1
from kestrel_sql.plan.steps.sources import (
    StreamSourceV1,
    TableSourceV1,
    TableSourceV2,
    WindowedStreamSourceV1,
    WindowedTableSourceV1,
)
from kestrel_sql.plan.steps.streams import StreamGroupByKeyV1, StreamGroupByV1, StreamGroupByV2, StreamSelectKeyV1
from kestrel_sql.plan.steps.tables import TableGroupByV1, TableGroupByV2, TableSelectKeyV1, TableSelectV1
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import HoppingWindow, JoinType, SessionWindow, Window
from kestrel_sql.types.schema import PSEUDO_COLUMNS, Column, Schema
from kestrel_sql.types.sql_types import SqlType

_Source = StreamSourceV1 | WindowedStreamSourceV1 | TableSourceV1 | TableSourceV2 | WindowedTableSourceV1
AggregateStep = StreamAggregateV1 | StreamWindowedAggregateV1 | TableAggregateV1
_GroupBy = StreamGroupByKeyV1 | StreamGroupByV1 | StreamGroupByV2 | TableGroupByV1 | TableGroupByV2
_Join = StreamStreamJoinV1 | StreamTableJoinV1
_Sink = StreamSinkV1 | TableSinkV1
_Reshaped = StreamGroupByV1 | StreamGroupByV2 | TableGroupByV1 | TableGroupByV2 | StreamSelectKeyV1 | TableAggregateV1


class SideFormat(msgspec.Struct, frozen=True):
    """The format of the key or value of a topic or store; `window` is the window of the key."""

    format: FormatInfo
    features: frozenset[SerdeFeature]
    window: WindowInfo | None = None


class Serde(msgspec.Struct, frozen=True):
    """The serdes of a topic or store. The key or value is None if its serde belongs elsewhere."""

    schema: Schema
    key: SideFormat | None
    value: SideFormat | None


def plan_serdes(plan: QueryPlan, functions: Registry) -> dict[str, Serde]:
    """Return the serdes of a query by name, such as `CTAS_OUT_0.Aggregate.GroupBy`.

    Raises:
        StatementError: an expression of the plan is not well typed.
    """
    walk = _Walk(f"{plan.query_id}.", functions)
    walk.visit(plan.physical_plan)
    return walk.found


class _Flow(msgspec.Struct, frozen=True):
    """The result of a step for the next one."""

    schema: Schema
    window: WindowInfo | None


class _Walk(msgspec.Struct, frozen=True):
    """Walks a plan and collects the serdes of its steps."""

    prefix: str
    functions: Registry
    found: dict[str, Serde] = {}

    def visit(self, step: Step) -> _Flow:
        """Collect from the steps upstream of `step`, then from the step."""
        inputs = [self.visit(source) for source in step.upstream]
        typer = partial(type_of, functions=self.functions)
        flow = _Flow(step.schema([each.schema for each in inputs], typer), _window(step, inputs))
        name = self.prefix + step.query_context.replace("/", ".")
        if isinstance(step, AggregateStep):
            stored = stored_columns(step, flow.schema, inputs[0].schema, self.functions)
            self.found[f"{name}.Materialize"] = _both(stored, step.internal_formats, inputs[0].window)
        self.found.update((name + suffix, serde) for suffix, serde in _serdes(step, flow, inputs))
        return flow


def _window(step: Step, inputs: list[_Flow]) -> WindowInfo | None:
    match step:
        case WindowedStreamSourceV1() | WindowedTableSourceV1():
            return step.window_info
        case StreamWindowedAggregateV1():
            return info_of(step.window_expression.window)
        case _ if isinstance(step, _Reshaped) or not inputs:
            return None
        case _:
            return inputs[0].window


def info_of(window: Window) -> WindowInfo:
    """The window of a key that a clause makes."""
    if isinstance(window, SessionWindow):
        return WindowInfo(WindowType.SESSION)
    kind = WindowType.HOPPING if isinstance(window, HoppingWindow) else WindowType.TUMBLING
    return WindowInfo(kind, window.size.millis)


def _serdes(step: Step, flow: _Flow, inputs: list[_Flow]) -> Iterator[tuple[str, Serde]]:
    """Return the serdes of one step, by the suffix of their names after its context."""
    if isinstance(step, _Source):
        yield from _of_source(step, flow)
    elif isinstance(step, KafkaStreamSourceV1 | KafkaTableSourceV1):
        yield "", _both(step.ingestion.message_schema, step.ingestion.formats, None)
    elif isinstance(step, _Sink):
        yield "", _both(flow.schema, step.formats, flow.window)
    elif isinstance(step, _GroupBy):
        yield "", _both(flow.schema, step.internal_formats, flow.window)
    elif isinstance(step, TableSelectKeyV1):
        yield ".Materialize", _both(flow.schema, step.internal_formats, flow.window)
    elif isinstance(step, TableSuppressV1):
        yield ".Suppress", _both(flow.schema, step.internal_formats, flow.window)
    elif isinstance(step, TableSelectV1) and step.internal_formats is not None:
        yield "", _both(flow.schema, step.internal_formats, None)
    elif isinstance(step, FkTableTableJoinV1):
        yield "", _both(flow.schema, step.formats, flow.window)
    elif isinstance(step, _Join):
        yield from _of_join(step, inputs)


def _of_source(step: _Source, flow: _Flow) -> Iterator[tuple[str, Serde]]:
    declared = step.source_schema
    yield "", _both(declared, step.formats, flow.window)
    if isinstance(step, TableSourceV2):
        headers = tuple(Column(c.name, c.type) for c in declared.headers)
        kept = (
            *declared.key,
            *declared.value,
            *headers,
            *PSEUDO_COLUMNS[step.pseudo_column_version][1:],
            *declared.headers,
        )
        yield ".Materialized", _both(Schema(kept), step.state_store_formats, flow.window)


def _of_join(step: _Join, inputs: list[_Flow]) -> Iterator[tuple[str, Serde]]:
    """Return the serdes of a join. ksqlDB runs a RIGHT join as a LEFT join with the sides swapped."""
    left, right = inputs
    match step:
        case StreamStreamJoinV1():
            formats, other = step.left_internal_formats, step.right_internal_formats
            if step.join_type is JoinType.RIGHT:
                left, right, formats, other = right, left, other, formats
            yield ".Right", Serde(right.schema, None, _value(other))
        case StreamTableJoinV1():
            formats = step.internal_formats
        case _:
            assert_never(step)
    yield "", Serde(left.schema, _key(formats, left.window), None)
    yield ".Left", Serde(left.schema, None, _value(formats))


def type_of(expression: Expression, scope: Mapping[str, SqlType], functions: Registry) -> SqlType | None:
    """The type of an expression of a plan."""
    return bind(expression, scope, functions).type


def stored_columns(step: AggregateStep, schema: Schema, source: Schema, functions: Registry) -> Schema:
    """The columns of an aggregate's store: states where they have another type than results, and no window bounds."""
    first = len(schema.key) + len(step.non_aggregate_columns)
    columns = list(schema.columns[:first])
    for column, call in zip(schema.columns[first:], step.aggregation_functions, strict=False):
        bound = bind(call, scope_of(source), functions)
        if isinstance(bound.function, Aggregate) and bound.function.intermediate is not None:
            state = bound.function.intermediate(tuple(child.type for child in bound.children))
            columns.append(replace(column, type=state))
        else:
            columns.append(column)
    return Schema(tuple(columns))


def _both(schema: Schema, formats: Formats, window: WindowInfo | None) -> Serde:
    return Serde(schema, _key(formats, window), _value(formats))


def _key(formats: Formats, window: WindowInfo | None) -> SideFormat:
    return SideFormat(formats.key_format, formats.key_features, window)


def _value(formats: Formats) -> SideFormat:
    return SideFormat(formats.value_format, formats.value_features)
