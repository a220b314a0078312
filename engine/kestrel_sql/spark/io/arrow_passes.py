"""Functions of Arrow over Spark's rows: those that follow each other are one pass, so that rows come to Python once (ADR 24)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]
Pass = Callable[[Batches], Batches]
"""A function for `mapInArrow`."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Rows of Spark, and the functions of Arrow that are still to be put over them."""

    rows: DataFrame
    functions: tuple[Pass, ...] = ()

    def through(self, function: Pass) -> Passes:
        """The same rows behind one more function."""
        return replace(self, functions=(*self.functions, function))

    def frame(self, schema: str) -> DataFrame:
        """The rows as a frame; `schema` is what the last function gives, as Spark writes it."""
        return self.rows.mapInArrow(_chained(self.functions), schema)


def _chained(functions: tuple[Pass, ...]) -> Pass:
    def chained(batches: Batches) -> Batches:
        for function in functions:
            batches = function(batches)
        return batches

    return chained
