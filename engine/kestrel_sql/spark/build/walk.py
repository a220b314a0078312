"""Builds the steps of a plan for Spark, with a table of the builders."""

from __future__ import annotations

from kestrel_sql.dataflow.stateful import aggregates
from kestrel_sql.dataflow.stateful import joins as joins_by_key
from kestrel_sql.dataflow.walk import build, collect_builders
from kestrel_sql.plan.step import Step
from kestrel_sql.spark.build.projections import rescaled
from kestrel_sql.spark.build.steps import joins, kafka, sinks, sources, streams, tables
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle

BUILDERS = collect_builders(sources, kafka, streams, tables, aggregates, joins_by_key, joins, sinks)


def build_step(step: Step, query: QueryBuild) -> Handle:
    """Build the steps upstream of `step`, then `step` itself, and return its result."""
    return build(step, query, BUILDERS, rescaled)
