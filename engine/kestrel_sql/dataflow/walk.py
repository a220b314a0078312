"""Walks over a plan and builds each step, with a table of the builders of a carrier."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar, get_type_hints

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

Q = TypeVar("Q")
R = TypeVar("R")

Builders = Mapping[type[Step], Callable[..., Any]]
"""The builder of each step: `builder(step, query, *inputs)`."""


def collect_builders(*families: ModuleType) -> Builders:
    """Index the public functions of `families` whose parameter `step` is annotated with a step class.

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


def build(step: Step, query: Q, builders: Builders, rescaled: Callable[[Q, R], R]) -> R:
    """Build the steps upstream of `step`, then `step` itself, and return its result.

    `rescaled` brings DECIMALs with scales of their own to those of their types.
    """
    inputs = [build(source, query, builders, rescaled) for source in step.upstream]
    if isinstance(step, _ROW_BY_ROW):
        built: R = builders[type(step)](step, query, *inputs)
        return built
    result: R = builders[type(step)](step, query, *(rescaled(query, each) for each in inputs))
    return rescaled(query, result)
