"""Builders of the aggregating steps."""

from __future__ import annotations

from kestrel_sql.dataflow.aggregates import (
    drops_headers,
    stream_aggregate,
    table_aggregate,
    table_suppress,
    windowed_aggregate,
)
from kestrel_sql.plan.steps.aggregates import (
    StreamAggregateV1,
    StreamWindowedAggregateV1,
    TableAggregateV1,
    TableSuppressV1,
)
from kestrel_sql.spark.build.projections import no_headers
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import Operation


def stream_aggregate_v1(step: StreamAggregateV1, build: QueryBuild, source: Handle) -> Handle:
    """Aggregate a stream per key."""
    return build.stateful(stream_aggregate(step, build, source), (source,), build.logger(step))


def table_aggregate_v1(step: TableAggregateV1, build: QueryBuild, source: Handle) -> Handle:
    """Aggregate a table per group."""
    return build.stateful(table_aggregate(step, build, source), (source,), build.logger(step))


def stream_windowed_aggregate_v1(step: StreamWindowedAggregateV1, build: QueryBuild, source: Handle) -> Handle:
    """Aggregate a stream per key and window."""
    made = build.stateful(windowed_aggregate(step, build, source), (source,), build.logger(step))
    if not drops_headers(step):
        return made
    return build.apply(made, Operation(fields=made.unchanged(), headers=no_headers(), logger=build.logger(step)), made)


def table_suppress_v1(step: TableSuppressV1, build: QueryBuild, source: Handle) -> Handle:
    """Hold results back until their window closes."""
    return build.stateful(table_suppress(build, source), (source,), build.logger(step))
