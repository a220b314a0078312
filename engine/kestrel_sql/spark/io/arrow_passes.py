"""Passes: functions over Arrow batches.

Consecutive ones run as a single `mapInArrow`, so that rows go to Python once (ADR 24).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]
Pass = Callable[[Batches], Batches]
"""A function for `mapInArrow`."""


class MapsInArrow(Protocol):
    """Rows that functions can be applied to: a frame of Spark, or a source that applies them itself."""

    def mapInArrow(self, function: Pass, schema: str) -> DataFrame:  # noqa: N802 - Spark's name
        """Return what a function makes of the rows."""


class Passes(msgspec.Struct, frozen=True):
    """Rows, and the passes that are not applied yet."""

    rows: MapsInArrow
    functions: tuple[Pass, ...] = ()

    def through(self, function: Pass) -> Passes:
        """Return the same rows with one more pass."""
        return replace(self, functions=(*self.functions, function))

    def frame(self, schema: str) -> DataFrame:
        """Apply the passes; `schema` is the Spark schema of the result of the last one."""
        return self.rows.mapInArrow(chained(self.functions), schema)


def chained(functions: tuple[Pass, ...]) -> Pass:
    """Return functions as one, each after the one before it."""

    def run(batches: Batches) -> Batches:
        for function in functions:
            batches = function(batches)
        return batches

    return run
