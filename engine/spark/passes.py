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
    schema: str = ""
    """The columns behind the last function, as Spark writes them; empty where only another function takes them."""

    def through(self, function: Pass, schema: str = "") -> Passes:
        """The same rows behind one more function, which gives the columns of `schema`."""
        return replace(self, functions=(*self.functions, function), schema=schema)

    def frame(self) -> DataFrame:
        """The rows as a frame."""
        return self.rows.mapInArrow(_chained(self.functions), self.schema) if self.functions else self.rows


def _chained(functions: tuple[Pass, ...]) -> Pass:
    def chained(batches: Batches) -> Batches:
        for function in functions:
            batches = function(batches)
        return batches

    return chained
