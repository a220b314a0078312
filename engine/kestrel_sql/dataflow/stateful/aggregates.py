"""The aggregating steps, for all carriers."""

from __future__ import annotations

from kestrel_sql.dataflow.aggregates import (
    drops_headers,
    stream_aggregate,
    table_aggregate,
    table_suppress,
    windowed_aggregate,
)
from kestrel_sql.dataflow.query import Build
from kestrel_sql.dataflow.relation import AnyRelation
from kestrel_sql.plan.steps.aggregates import (
    StreamAggregateV1,
    StreamWindowedAggregateV1,
    TableAggregateV1,
    TableSuppressV1,
)


def stream_aggregate_v1(step: StreamAggregateV1, build: Build[AnyRelation], source: AnyRelation) -> AnyRelation:
    """Aggregate a stream per key."""
    return build.stateful(stream_aggregate(step, build, source), (source,), build.logger(step))


def table_aggregate_v1(step: TableAggregateV1, build: Build[AnyRelation], source: AnyRelation) -> AnyRelation:
    """Aggregate a table per group."""
    return build.stateful(table_aggregate(step, build, source), (source,), build.logger(step))


def stream_windowed_aggregate_v1(
    step: StreamWindowedAggregateV1, build: Build[AnyRelation], source: AnyRelation
) -> AnyRelation:
    """Aggregate a stream per key and window."""
    made = build.stateful(windowed_aggregate(step, build, source), (source,), build.logger(step))
    return build.without_headers(made, build.logger(step)) if drops_headers(step) else made


def table_suppress_v1(step: TableSuppressV1, build: Build[AnyRelation], source: AnyRelation) -> AnyRelation:
    """Hold results back until their window closes."""
    return build.stateful(table_suppress(build, source), (source,), build.logger(step))
