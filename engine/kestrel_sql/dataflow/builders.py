"""Walks over a plan and builds each step, with a table of the builders of a carrier."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar, get_type_hints

from kestrel_sql.plan.step import Step

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


def build(step: Step, query: Q, builders: Builders, rescaled: Callable[[Q, R], R]) -> R:
    """Build the steps upstream of `step`, then `step` itself, and return its result.

    `rescaled` brings DECIMALs with scales of their own to those of their types.
    """
    inputs = [build(source, query, builders, rescaled) for source in step.upstream]
    if step.row_by_row:
        built: R = builders[type(step)](step, query, *inputs)
        return built
    result: R = builders[type(step)](step, query, *(rescaled(query, each) for each in inputs))
    return rescaled(query, result)
