"""The functions of the language; a new family is one more module in this list."""

from __future__ import annotations

from engine.functions.library import (
    aggregates_arithmetic,
    aggregates_collections,
    aggregates_distinct,
    aggregates_extremes,
    aggregates_offsets,
    aggregates_statistics,
    arrays,
    bytes_,
    conversions,
    dates,
    lambdas,
    maps,
    masks,
    nulls,
    numbers,
    reals,
    regex,
    strings,
    table_functions,
    times,
    timestamps,
)
from engine.functions.registry import Registry, collect

FUNCTIONS: Registry = collect(
    aggregates_arithmetic,
    aggregates_collections,
    aggregates_distinct,
    aggregates_extremes,
    aggregates_offsets,
    aggregates_statistics,
    arrays,
    bytes_,
    conversions,
    dates,
    lambdas,
    maps,
    masks,
    nulls,
    numbers,
    reals,
    regex,
    strings,
    table_functions,
    times,
    timestamps,
)
