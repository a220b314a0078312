"""The aggregating steps."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.dataflow.aggregate_operators import (
    stream_aggregate,
    table_aggregate,
    table_suppress,
    windowed_aggregate,
)
from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Listed, Log, Rows
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.plan.steps.aggregates import (
    StreamAggregateV1,
    StreamWindowedAggregateV1,
    TableAggregateV1,
    TableSuppressV1,
)


def stream_aggregate_v1(step: StreamAggregateV1, query: GraphQuery, source: Relation) -> Relation:
    """Aggregate a stream per key."""
    return query.stateful(stream_aggregate(step, query, source), (source,), query.logger(step))


def table_aggregate_v1(step: TableAggregateV1, query: GraphQuery, source: Relation) -> Relation:
    """Aggregate a table per group."""
    return query.stateful(table_aggregate(step, query, source), (source,), query.logger(step))


def stream_windowed_aggregate_v1(step: StreamWindowedAggregateV1, query: GraphQuery, source: Relation) -> Relation:
    """Aggregate a stream per key and window."""
    operator, result = windowed_aggregate(step, query, source)
    made = query.stateful((operator, result), (source,), query.logger(step))
    if not (isinstance(operator, SessionWindowAggregate) and operator.drops_headers):
        return made

    def apply(log: Log, rows: Rows) -> Rows:
        return replace(rows, headers=Listed([()] * rows.size))

    return query.then(made, apply, made, "drop headers")


def table_suppress_v1(step: TableSuppressV1, query: GraphQuery, source: Relation) -> Relation:
    """Hold results back until their window closes."""
    return query.stateful(table_suppress(query, source), (source,), query.logger(step))
