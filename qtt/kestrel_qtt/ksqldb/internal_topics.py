"""The internal topics that Kafka Streams would create for a query. Kestrel has none, but cases name them.

Most names come from the query contexts of the plan's steps. The stores of stream-stream joins have generated names with
the number of their node. Kafka Streams numbers nodes as it builds them; a node with a name of its own takes a number
too.
"""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec.structs import replace

from kestrel_qtt.ksqldb.stored_serdes import info_of, stored_columns, type_of
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.plan.step import Formats, Step, WindowInfo
from kestrel_sql.plan.steps.aggregates import (
    StreamAggregateV1,
    StreamWindowedAggregateV1,
    TableAggregateV1,
    TableSuppressV1,
)
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1
from kestrel_sql.plan.steps.sources import (
    StreamSourceV1,
    TableSourceV1,
    TableSourceV2,
    WindowedStreamSourceV1,
    WindowedTableSourceV1,
)
from kestrel_sql.plan.steps.streams import StreamGroupByV1, StreamGroupByV2, StreamSelectKeyV1, StreamSelectKeyV2
from kestrel_sql.plan.steps.tables import TableGroupByV1, TableGroupByV2, TableSelectKeyV1, TableSelectV1
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.schema import WINDOW_BOUNDS, Column, Schema

_REPARTITION_NODES = 3
"""A filter, a sink and a source."""

_NODES_BEFORE_FK_OUTPUT = 13
"""The nodes of a foreign-key join up to the store of its result."""

_STORES = {
    JoinType.INNER: ("JOINTHIS", "JOINOTHER"),
    JoinType.LEFT: ("JOINTHIS", "OUTEROTHER"),
    JoinType.RIGHT: ("JOINTHIS", "OUTEROTHER"),
    JoinType.OUTER: ("OUTERTHIS", "OUTEROTHER"),
}


class InternalTopic(msgspec.Struct, frozen=True):
    """A topic between two parts of a query, with its formats and columns."""

    name: str
    formats: Formats
    window: WindowInfo | None
    key: tuple[Column, ...]
    value: tuple[Column, ...]


def internal_topics(
    plan: QueryPlan, service_id: str, functions: Registry, *, optimized: bool = True
) -> tuple[InternalTopic, ...]:
    """List a query's repartition and changelog topics (rules Q10.2), without those of foreign-key subscriptions.

    A topology that is not `optimized` keeps the rows of a table in a changelog of its own, not in the table's topic.
    """
    walk = _Walk(f"_confluent-ksql-{service_id}query_{plan.query_id}-", functions, optimized=optimized)
    walk.visit(plan.physical_plan)
    return tuple(walk.topics)


class _Built(msgspec.Struct, frozen=True):
    """The facts of a step after it is built.

    A join writes `rekeyed` rows to another topic. A projection stores the rows of a table that is not `stored`.
    `unkept` is the store that a foreign-key join would have if a join read its result.
    """

    schema: Schema
    window: WindowInfo | None = None
    rekeyed: bool = False
    stored: bool = True
    unkept: tuple[str, Formats] | None = None


class _Walk:
    """Builds a plan as Kafka Streams does, counts nodes and collects topics."""

    def __init__(self, prefix: str, functions: Registry, *, optimized: bool) -> None:
        self._prefix = prefix
        self._optimized = optimized
        self._functions = functions
        self._type_of = partial(type_of, functions=functions)
        self._nodes = 0
        self.topics: list[InternalTopic] = []

    def visit(self, step: Step) -> _Built:
        """Build the steps upstream of `step` in ksqlDB's order, then the step."""
        inputs = self._inputs(step)
        schema = step.schema([each.schema for each in inputs], self._type_of)
        match step:
            case (
                StreamSourceV1()
                | WindowedStreamSourceV1()
                | TableSourceV1()
                | TableSourceV2()
                | WindowedTableSourceV1()
            ):
                return self._source(step, schema)
            case KafkaStreamSourceV1() | KafkaTableSourceV1():
                return _Built(schema)
            case StreamStreamJoinV1():
                return self._stream_join(step, inputs, schema)
            case StreamTableJoinV1():
                if inputs[0].rekeyed:
                    self._repartition(_name(step), step.internal_formats, inputs[0])
                self._nodes += 1
                return _Built(schema, inputs[0].window)
            case TableTableJoinV1() | FkTableTableJoinV1():
                return self._table_join(step, inputs, schema)
            case _:
                return self._one_input(step, inputs[0], schema)

    def _inputs(self, step: Step) -> list[_Built]:
        if isinstance(step, StreamTableJoinV1):
            right = self.visit(step.right_source)
            return [self.visit(step.left_source), right]
        rekeyed = isinstance(step, TableSelectKeyV1)
        return [
            self._unstored(source)
            if rekeyed and isinstance(source, TableSourceV1 | TableSourceV2)
            else self.visit(source)
            for source in step.upstream
        ]

    def _unstored(self, step: TableSourceV1 | TableSourceV2) -> _Built:
        """Read a table that is re-keyed at once; its re-keyed rows are stored instead."""
        self._nodes += 4
        return _Built(step.schema([], self._type_of))

    def _source(self, step: Step, schema: Schema) -> _Built:
        match step:
            case StreamSourceV1():
                self._nodes += 2
                return _Built(schema)
            case WindowedStreamSourceV1():
                self._nodes += 2
                return _Built(schema, step.window_info)
            case TableSourceV2(state_store_formats=formats, source_schema=declared):
                self._nodes += 5
                stored = tuple(
                    c for c in schema.value if c.name != "ROWTIME" and all(c.name != key.name for key in declared.key)
                )
                self._changelog(
                    _name(step).removesuffix("-Source") + "-Reduce", formats, Schema((*declared.key, *stored)), None
                )
                return _Built(schema)
            case TableSourceV1(formats=formats, source_schema=declared) if step.force_changelog or not self._optimized:
                self._nodes += 5
                self._changelog(_name(step).removesuffix("-Source") + "-Reduce", formats, declared, None)
                return _Built(schema)
            case WindowedTableSourceV1():
                self._nodes += 3
                return _Built(schema, step.window_info)
            case _:
                self._nodes += 3
                return _Built(schema)

    def _one_input(self, step: Step, source: _Built, schema: Schema) -> _Built:
        name = _name(step)
        self._nodes += 1
        match step:
            case StreamSelectKeyV1() | StreamSelectKeyV2():
                self._nodes += isinstance(step, StreamSelectKeyV1)
                return _Built(schema, source.window, rekeyed=True)
            case StreamGroupByV1() | StreamGroupByV2() | TableGroupByV1() | TableGroupByV2():
                built = _Built(schema)
                self._repartition(name, step.internal_formats, built)
                return built
            case TableSelectKeyV1():
                self._nodes += 3
                built = _Built(schema, source.window)
                self._repartition(f"{name}-SelectKey", step.internal_formats, built)
                self._changelog(f"{name}-Materialize", step.internal_formats, schema, source.window)
                return built
            case StreamAggregateV1() | StreamWindowedAggregateV1() | TableAggregateV1():
                window = info_of(step.window_expression.window) if isinstance(step, StreamWindowedAggregateV1) else None
                columns = stored_columns(step, schema, source.schema, self._functions)
                self._changelog(f"{name}-Materialize", step.internal_formats, columns, window)
                return _Built(schema, window)
            case TableSuppressV1():
                self._changelog(f"{name}-store", step.internal_formats, schema, source.window)
                return replace(source, schema=schema)
            case TableSelectV1(internal_formats=Formats() as formats) if not source.stored:
                self._changelog(f"{name}-Last", formats, schema, source.window)
                return _Built(schema, source.window)
            case _:
                return replace(source, schema=schema)

    def _stream_join(self, step: StreamStreamJoinV1, inputs: list[_Built], schema: Schema) -> _Built:
        # ksqlDB runs a right join as a left join with the sides swapped. The key is always written as the left
        # source's.
        swapped = step.join_type is JoinType.RIGHT
        sides = [(inputs[0], step.left_internal_formats), (inputs[1], step.right_internal_formats)]
        this, other = reversed(sides) if swapped else sides
        key, window = inputs[0].schema.key, inputs[0].window
        rows = [
            (replace(built, schema=Schema((*key, *built.schema.value)), window=window), formats)
            for built, formats in (this, other)
        ]
        for side, (built, formats) in zip(("left", "right"), rows, strict=True):
            if built.rekeyed:
                self._repartition(f"{_name(step)}-{side}", formats, built)
        number = self._nodes + 2
        self._nodes += 5
        first, second = _STORES[step.join_type]
        stores = [(f"{first}-{number:010}", rows[0]), (f"{second}-{number + 1:010}", rows[1])]
        if step.grace_ms is not None and step.join_type is not JoinType.INNER:
            # It stores rows of both sides if both may stay unmatched; the newest schema in the registry is then the
            # right side's.
            stores.append((f"OUTERSHARED-{number:010}", rows[step.join_type is JoinType.OUTER]))
        for store, (built, formats) in stores:
            self._changelog(f"KSTREAM-{store}-store", formats, built.schema, window)
        return _Built(schema, window)

    def _table_join(self, step: TableTableJoinV1 | FkTableTableJoinV1, inputs: list[_Built], schema: Schema) -> _Built:
        if isinstance(step, TableTableJoinV1):
            for built in inputs:
                if built.unkept is not None:
                    name, formats = built.unkept
                    self._changelog(name, formats, built.schema, None)
            self._nodes += 3
            return _Built(schema, inputs[0].window, stored=False)
        self._nodes += _NODES_BEFORE_FK_OUTPUT
        store = f"KTABLE-FK-JOIN-OUTPUT-STATE-STORE-{self._nodes:010}"
        self._nodes += 1
        return _Built(schema, stored=False, unkept=(store, step.formats))

    def _repartition(self, name: str, formats: Formats, built: _Built) -> None:
        self._nodes += _REPARTITION_NODES
        self._note(f"{name}-repartition", formats, built.schema, built.window)

    def _changelog(self, name: str, formats: Formats, schema: Schema, window: WindowInfo | None) -> None:
        self._note(f"{name}-changelog", formats, schema, window)

    def _note(self, name: str, formats: Formats, schema: Schema, window: WindowInfo | None) -> None:
        value = tuple(column for column in schema.value if window is None or column not in WINDOW_BOUNDS)
        self.topics.append(InternalTopic(self._prefix + name, formats, window, schema.key, value))


def _name(step: Step) -> str:
    return step.query_context.replace("/", "-")
