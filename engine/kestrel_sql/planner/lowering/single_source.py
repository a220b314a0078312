"""Builds the steps over one relation: read, filter, re-key and table functions."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import EngineError, StatementError, TypeMismatchError
from kestrel_sql.formats.table import format_of
from kestrel_sql.plan.step import FormatInfo, Step
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1
from kestrel_sql.plan.steps.sources import StreamSourceV1, TableSourceV2, WindowedStreamSourceV1, WindowedTableSourceV1
from kestrel_sql.plan.steps.streams import StreamFilterV1, StreamFlatMapV1, StreamSelectKeyV2
from kestrel_sql.plan.steps.tables import TableFilterV1, TableSelectKeyV1
from kestrel_sql.planner.analysis.scope import PSEUDO_VERSION
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.lowering.relation import Relation
from kestrel_sql.planner.properties.serdes import internal_formats
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, FunctionCall
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.sql.nodes.walk import calls, rewrite
from kestrel_sql.types.sql_types import BOOLEAN, SqlType

WINDOWED_REPARTITION = (
    "Implicit repartitioning of windowed sources is not supported. "
    "See https://github.com/confluentinc/ksql/issues/4385."
)


def read(source: Source, context: str, types: Types) -> Relation:
    """Return a step that reads a stream or table."""
    step = _source_step(source, context)
    formats = internal_formats(source.formats, source.schema.key, rekeyed=False)
    return Relation(step, step.schema((), types.of), source.kind, formats, source.window)


def _source_step(source: Source, context: str) -> Step:
    is_table = source.kind is SourceKind.TABLE
    if source.window is not None:
        windowed = WindowedTableSourceV1 if is_table else WindowedStreamSourceV1
        return windowed(
            query_context=context,
            topic_name=source.topic,
            formats=source.formats,
            window_info=source.window,
            timestamp_column=source.timestamp_column,
            source_schema=source.schema,
            pseudo_column_version=PSEUDO_VERSION,
        )
    if source.ingestion is not None:
        kafka = KafkaTableSourceV1 if is_table else KafkaStreamSourceV1
        return kafka(
            query_context=context,
            topic_name=source.topic,
            formats=source.formats,
            ingestion=source.ingestion,
            source_schema=source.schema,
            pseudo_column_version=PSEUDO_VERSION,
        )
    if is_table:
        return TableSourceV2(
            query_context=context,
            topic_name=source.topic,
            formats=source.formats,
            timestamp_column=source.timestamp_column,
            source_schema=source.schema,
            pseudo_column_version=PSEUDO_VERSION,
            state_store_formats=internal_formats(source.formats, source.schema.key, rekeyed=False),
        )
    return StreamSourceV1(
        query_context=context,
        topic_name=source.topic,
        formats=source.formats,
        timestamp_column=source.timestamp_column,
        source_schema=source.schema,
        pseudo_column_version=PSEUDO_VERSION,
    )


def filtered(relation: Relation, predicate: Expression, clause: str, context: str, types: Types) -> Relation:
    """Keep the rows for which `predicate`, which `check_predicate` has accepted, is true.

    Raises:
        StatementError: the predicate calls an aggregate or a table function; names `clause`.
    """
    _check_row_wise(predicate, clause, types)
    step = TableFilterV1 if relation.is_table else StreamFilterV1
    return relation.then(step(query_context=context, source=relation.step, filter_expression=predicate), types)


def check_predicate(predicate: Expression, clause: str, scope: Mapping[str, SqlType], types: Types) -> None:
    """Check that `predicate` is a BOOLEAN over the columns of `scope`; `clause` is WHERE or HAVING.

    Raises:
        TypeMismatchError: the predicate is not a BOOLEAN.
        StatementError: the predicate has a type error.
    """
    try:
        predicate_type = types.of(predicate, scope)
    except EngineError as error:
        raise StatementError(
            f"Error in {clause} expression: {error.message}", span=error.span, hint=error.hint
        ) from error
    if predicate_type != BOOLEAN:
        raise TypeMismatchError(
            f"Type error in {clause} expression: "
            f"Should evaluate to boolean but is {format_expression(predicate)} ({predicate_type}) instead.",
            span=predicate.span,
        )


def _check_row_wise(predicate: Expression, clause: str, types: Types) -> None:
    for kind, wanted in (("aggregate", types.is_aggregate), ("table", types.is_table_function)):
        for call in calls(predicate, wanted):
            raise StatementError(f"{clause} does not support {kind} functions: {call.name} is one.", span=call.span)


def rekeyed(
    relation: Relation,
    expressions: tuple[Expression, ...],
    context: str,
    types: Types,
    *,
    key_format: FormatInfo | None = None,
    format_changes: bool = False,
    forced: bool = False,
) -> Relation:
    """Make `expressions` the key, in `key_format` if it is set; return the relation itself if nothing changes.

    `format_changes` and `forced` add the step even if the key stays the same.

    Raises:
        StatementError: the step would repartition a table or a windowed stream.
    """
    needed = not relation.is_keyed_by(expressions)
    if not (needed or format_changes or forced):
        return relation
    if relation.window is not None and (needed or not forced or relation.is_table):
        raise StatementError(WINDOWED_REPARTITION)
    required = replace(relation.formats, key_format=key_format or relation.formats.key_format)
    if relation.is_table:
        _check_same_key(relation, expressions, needed=needed)
        formats = internal_formats(required, relation.schema.key)
        table_step = TableSelectKeyV1(
            query_context=context, source=relation.step, internal_formats=formats, key_expression=expressions
        )
        return replace(relation.then(table_step, types), formats=formats)
    result = relation.then(
        StreamSelectKeyV2(query_context=context, source=relation.step, key_expression=expressions), types
    )
    return replace(result, formats=internal_formats(required, result.schema.key))


def _check_same_key(relation: Relation, expressions: tuple[Expression, ...], *, needed: bool) -> None:
    keys = relation.key_names
    if len(keys) > 1:
        raise StatementError(
            "Cannot repartition a TABLE source. "
            "If this is a join, joins on tables with multiple columns is not yet supported."
        )
    if needed:
        raise StatementError(
            "Cannot repartition a TABLE source. If this is a join, make sure that the criteria uses the TABLE's "
            f"key column {keys[0]} instead of {', '.join(map(format_expression, expressions))}"
        )


def infers_schema(key_format: FormatInfo) -> bool:
    """Whether a key format has schemas in the registry; a join then always copies the topic (rules N7.5)."""
    return format_of(key_format.format).infers_columns


def exploded(relation: Relation, functions: tuple[FunctionCall, ...], types: Types) -> Relation:
    """Replace each row by the rows that its table functions return."""
    return relation.then(
        StreamFlatMapV1(query_context="FlatMap", source=relation.step, table_functions=functions),
        types,
    )


class TableFunctions:
    """Replaces the table functions in a projection by columns, and collects their calls in the order of the text."""

    def __init__(self, types: Types) -> None:
        """Start without calls; `types` tells which functions are table functions."""
        self._types = types
        self.calls: list[FunctionCall] = []

    def extract(self, expression: Expression) -> Expression:
        """Replace each call of a table function in `expression` by the column of its result."""
        return rewrite(expression, self._rule)

    def _rule(self, node: Expression) -> Expression | None:
        if not isinstance(node, FunctionCall) or not self._types.is_table_function(node.name):
            return None
        self.calls.append(node)
        return ColumnRef(f"KSQL_SYNTH_{len(self.calls) - 1}", span=node.span)
