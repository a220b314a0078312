"""Plans statements with a query: CREATE AS, INSERT INTO … SELECT and SELECT (rules L9, L10, L11)."""

from __future__ import annotations

import msgspec

from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.errors import StatementError, position
from kestrel_sql.formats.registry.memory import SchemaRegistry
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.document import QueryPlan, StatementPlan
from kestrel_sql.plan.step import Formats, SelectItem, Step, TimestampColumn
from kestrel_sql.plan.steps.sinks import StreamSinkV1, TableSinkV1
from kestrel_sql.planner.analysis.analyze import Analysis, analyze
from kestrel_sql.planner.analysis.key_rules import check_key_selected
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.ddl.columns import check_key_types, timestamp_column
from kestrel_sql.planner.ddl.inference import check_sink_schemas, name_sink_schemas
from kestrel_sql.planner.ddl.statements import create_command
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.inserts import check_insert, check_insert_target
from kestrel_sql.planner.internal_topics import check_writable
from kestrel_sql.planner.lowering.aggregates import aggregated
from kestrel_sql.planner.lowering.experimental import in_select_order, plan_columns
from kestrel_sql.planner.lowering.headers import with_headers
from kestrel_sql.planner.lowering.joins import join_sources
from kestrel_sql.planner.lowering.projection import check_items, check_result, expand, project, select
from kestrel_sql.planner.lowering.relation import Relation
from kestrel_sql.planner.lowering.single_source import (
    TableFunctions,
    check_predicate,
    exploded,
    filtered,
    read,
    rekeyed,
)
from kestrel_sql.planner.properties.serdes import sink_formats
from kestrel_sql.planner.properties.with_clause import SinkProperties, check_retention, sink_properties
from kestrel_sql.sql.nodes.expressions import ColumnRef, NullLiteral
from kestrel_sql.sql.nodes.statements import CreateAs, Emit, InsertInto, Query, SourceKind
from kestrel_sql.types.own_scales import at_declared_scales
from kestrel_sql.types.schema import Schema


class PlannedQuery(msgspec.Struct, frozen=True):
    """A planned query without its sink.

    Attributes:
        analysis: the checked query.
        relation: its last step before the sink.
        schema: the schema of the sink.
        may_drop_key: whether the projection may leave out key columns.
    """

    analysis: Analysis
    relation: Relation
    schema: Schema
    may_drop_key: bool = False

    @property
    def leftmost(self) -> Source:
        """The first source of FROM, whose formats a sink inherits."""
        return self.analysis.scope.sources[0].source

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all sources, sorted."""
        return tuple(sorted(source.source.name for source in self.analysis.scope.sources))

    @property
    def loses_key(self) -> bool:
        """Whether the query has PARTITION BY NULL."""
        return any(isinstance(expression, NullLiteral) for expression in self.analysis.partition_by or ())


def plan_create_as(
    statement: CreateAs,
    catalog: Catalog,
    config: Config,
    query_id: str,
    statement_text: str,
    functions: Registry,
    registry: SchemaRegistry,
) -> StatementPlan:
    """Plan CREATE STREAM|TABLE … AS SELECT; the caller has checked the name with `ddl.statements.may_create`.

    Raises:
        StatementError: the statement breaks one of rules L6 or L9.
        RegistryError: the registry does not have a schema id of the statement.
    """
    if statement.query.limit is not None:
        raise StatementError(
            f"CREATE {statement.kind.value} AS SELECT statements don't support LIMIT clause.", span=statement.span
        )
    properties = sink_properties(statement.properties)
    types = Types(functions, config)
    if config.flag("ksql.new.query.planner.enabled"):
        planned = _plan_columns(statement.query, catalog, types)
    else:
        planned = _plan_query(statement.query, catalog, types, sink=statement.name)
    _check_kind(statement.kind, planned.relation)
    check_retention(statement.kind, properties.topic, expires=planned.relation.window is not None)
    # Whoever reads the topic gets values at the scales of their types.
    schema = at_declared_scales(planned.schema)
    properties = name_sink_schemas(properties, planned.leftmost, registry)
    check_sink_schemas(properties, planned.leftmost, schema, registry)
    timestamp = timestamp_column(properties.timestamp, schema)
    _check_projection(planned, statement.name)
    formats = sink_formats(
        properties, planned.leftmost, schema, config, sink=statement.name, partitioned_by_null=planned.loses_key
    )
    topic = _sink_topic(statement.name, properties, config)
    rows = with_headers(planned.relation, properties.headers, types)
    command = create_command(
        statement, schema=schema, topic=topic, formats=formats, timestamp=timestamp, window=planned.relation.window
    )
    step = _sink(rows, statement.name, topic, formats, timestamp)
    return StatementPlan(
        statement_text=statement_text,
        ddl_command=command,
        query_plan=QueryPlan(sources=planned.sources, sink=statement.name, physical_plan=step, query_id=query_id),
    )


def plan_insert_into(
    statement: InsertInto,
    catalog: Catalog,
    config: Config,
    query_id: str,
    statement_text: str,
    functions: Registry = FUNCTIONS,
) -> StatementPlan:
    """Plan INSERT INTO … SELECT, which writes with the formats and the TIMESTAMP column of the target.

    Raises:
        StatementError: the statement breaks one of rules L9 or N10.
    """
    target = catalog.sources.get(statement.target)
    if target is None:
        message = f"{position(statement.span)}Source `{statement.target}` does not exist."
        raise catalog.missing_source(message, statement.target, statement.span)
    check_insert_target(target)
    check_writable(target.topic, config, statement.span)
    if statement.query.limit is not None:
        raise StatementError("INSERT INTO statements don't support LIMIT clause.", span=statement.span)
    planned = _plan_query(statement.query, catalog, Types(functions, config), sink=target.name, target=target.schema)
    _check_kind(SourceKind.STREAM, planned.relation)
    _check_projection(planned, target.name)
    check_insert(planned.schema, target)
    step = _sink(planned.relation, target.name, target.topic, target.formats, None)
    return StatementPlan(
        statement_text=statement_text,
        query_plan=QueryPlan(sources=planned.sources, sink=target.name, physical_plan=step, query_id=query_id),
    )


def plan_source_table(source: Source, query_id: str, config: Config | None = None) -> QueryPlan:
    """Plan the query that materialises a CREATE SOURCE TABLE; it has no sink."""
    types = Types(FUNCTIONS, config or Config())
    relation = read(source, "KsqlTopic/Source", types)
    items = tuple(
        SelectItem(ColumnRef(column.name), column.name)
        for column in source.schema.columns
        if column not in source.schema.key
    )
    result = select(relation, relation.key_names, items, "Project", types)
    return QueryPlan(sources=(source.name,), sink=None, physical_plan=result.step, query_id=query_id)


def plan_transient(
    query: Query, catalog: Catalog, config: Config, query_id: str, functions: Registry = FUNCTIONS
) -> QueryPlan:
    """Plan a push query; its last step is a select, whose value columns include the selected key columns.

    Raises:
        StatementError: the query breaks one of rules L9.
    """
    planned = _plan_query(query, catalog, Types(functions, config), sink=None)
    return QueryPlan(sources=planned.sources, sink=None, physical_plan=planned.relation.step, query_id=query_id)


def _plan_query(
    query: Query, catalog: Catalog, types: Types, *, sink: str | None, target: Schema | None = None
) -> PlannedQuery:
    analysis = analyze(query, catalog, types, is_persistent=sink is not None)
    _check_emit(query, types.config)
    relation = join_sources(analysis, types) if analysis.scope.is_join else _single(analysis, types)
    columns = {**relation.scope, **analysis.scope.columns_as_written()}
    if analysis.where is not None:
        check_predicate(analysis.scope.as_written(analysis.where), "WHERE", columns, types)
        relation = filtered(relation, analysis.scope.plain(analysis.where), "WHERE", "WhereFilter", types)
    if analysis.partition_by is not None:
        for expression in analysis.partition_by:
            types.of(analysis.scope.as_written(expression), columns)
        relation = _partitioned(analysis, relation, types)
    if analysis.aggregates:
        relation = aggregated(analysis, relation, sink, types)
        return PlannedQuery(analysis, relation, relation.schema)
    relation = _projected(analysis, relation, target, types)
    return PlannedQuery(analysis, relation, relation.schema)


def _plan_columns(query: Query, catalog: Catalog, types: Types) -> PlannedQuery:
    analysis = analyze(query, catalog, types, is_persistent=True)
    relation = plan_columns(analysis, types)
    return PlannedQuery(analysis, relation, in_select_order(analysis, relation.schema), may_drop_key=True)


def _check_projection(planned: PlannedQuery, sink: str) -> None:
    # Aggregations check the key themselves, because their result has no grouping expressions.
    if not planned.analysis.aggregates and not planned.may_drop_key:
        check_key_selected(planned.analysis, sink)
    check_result(planned.relation.schema)


def _single(analysis: Analysis, types: Types) -> Relation:
    return read(analysis.scope.sources[0].source, "KsqlTopic/Source", types)


def _partitioned(analysis: Analysis, relation: Relation, types: Types) -> Relation:
    expressions = tuple(map(analysis.scope.plain, analysis.partition_by or ()))
    if relation.is_table:
        raise StatementError("Cannot repartition a TABLE source. Only streams support the PARTITION BY clause.")
    result = rekeyed(relation, expressions, "PartitionBy", types)
    check_key_types(result.schema.key)
    return result


def _projected(analysis: Analysis, relation: Relation, target: Schema | None, types: Types) -> Relation:
    if analysis.query.window is not None:
        raise StatementError("WINDOW clause requires a GROUP BY clause.", span=analysis.query.window.span)
    check_items(analysis, relation.scope, types)
    functions = TableFunctions(types)
    items = expand(analysis, relation, target, functions.extract)
    if functions.calls:
        relation = exploded(relation, tuple(functions.calls), types)
    return project(analysis, relation, items, "Project", types)


def _check_emit(query: Query, config: Config) -> None:
    if query.emit is not Emit.FINAL:
        return
    if query.window is None:
        raise StatementError("EMIT FINAL is only supported for windowed aggregations.")
    if not config.flag("ksql.suppress.enabled"):
        raise StatementError("EMIT FINAL is disabled.", hint="set ksql.suppress.enabled to true")


def _check_kind(wanted: SourceKind, relation: Relation) -> None:
    if relation.kind is wanted:
        return
    raise StatementError(
        f"Invalid result type. Your SELECT query produces a {relation.kind.value}. "
        f"Please use CREATE {relation.kind.value} AS SELECT statement instead."
    )


def _sink_topic(name: str, properties: SinkProperties, config: Config) -> str:
    return properties.topic.name or f"{config.output_topic_prefix}{name}"


def _sink(relation: Relation, name: str, topic: str, formats: Formats, timestamp: TimestampColumn | None) -> Step:
    step = TableSinkV1 if relation.is_table else StreamSinkV1
    return step(query_context=name, source=relation.step, formats=formats, topic_name=topic, timestamp_column=timestamp)
