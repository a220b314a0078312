"""Walks over a plan and builds each step, with a table of the builders."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, get_type_hints

from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.sinks import StreamSinkV1, TableSinkV1
from kestrel_sql.plan.steps.streams import (
    StreamFilterV1,
    StreamFlatMapV1,
    StreamSelectKeyV1,
    StreamSelectKeyV2,
    StreamSelectV1,
)
from kestrel_sql.plan.steps.tables import TableFilterV1, TableSelectV1
from kestrel_sql.spark.build.projections import rescaled
from kestrel_sql.spark.build.steps import aggregates, joins, kafka, sinks, sources, streams, tables
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle

Builder = Callable[..., Handle]


def collect_builders(*families: ModuleType) -> Mapping[type[Step], Builder]:
    """Index the public functions of `families` whose parameter `step` is annotated with a step class.

    Raises:
        ValueError: a step has two builders.
    """
    table: dict[type[Step], Builder] = {}
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


BUILDERS = collect_builders(sources, kafka, streams, tables, aggregates, joins, sinks)


_ROW_BY_ROW = (
    StreamFilterV1
    | StreamFlatMapV1
    | StreamSelectKeyV1
    | StreamSelectKeyV2
    | StreamSelectV1
    | StreamSinkV1
    | TableFilterV1
    | TableSelectV1
    | TableSinkV1
)
"""The steps that get the values of the step before them as they are, without a serde between (rule U4.7)."""


def build_step(step: Step, build: QueryBuild) -> Handle:
    """Build the steps upstream of `step`, then `step` itself, and return its result."""
    inputs = [build_step(source, build) for source in step.upstream]
    if isinstance(step, _ROW_BY_ROW):
        return BUILDERS[type(step)](step, build, *inputs)
    result = BUILDERS[type(step)](step, build, *(rescaled(build, handle) for handle in inputs))
    return rescaled(build, result)
