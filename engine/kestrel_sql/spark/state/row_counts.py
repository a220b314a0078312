"""How many rows of state a running query keeps: Spark counts our pages, and tasks count the rows in them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from pyspark import Accumulator
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_counts import row_count
from kestrel_sql.spark.state.level import PLAN

PageId = tuple[int, int, int]
"""Level, task and page."""


class _Latest(AccumulatorParam[dict[PageId, int]]):
    """Keeps the latest count of each page, so that a task that is done again counts once."""

    def zero(self, value: dict[PageId, int]) -> dict[PageId, int]:
        """Return no counts."""
        return {}

    def addInPlace(self, value1: dict[PageId, int], value2: dict[PageId, int]) -> dict[PageId, int]:  # noqa: N802 - Spark's name
        """Take the counts of a task."""
        value1.update(value2)
        return value1


class RowCounts(msgspec.Struct, frozen=True):
    """The rows of each page of a query: those that it resumed with, replaced by what its tasks count."""

    counts: Accumulator[dict[PageId, int]]

    @staticmethod
    def of(spark: SparkSession, resumed: Mapping[PageId, int]) -> RowCounts:
        """Begin with the pages of the checkpoint that a query resumes from."""
        return RowCounts(spark.sparkContext.accumulator(dict(resumed), _Latest()))

    def of_level(self, level: int) -> LevelCounts:
        """The counts for the tasks of a level."""
        return LevelCounts(self.counts, level)

    @property
    def total(self) -> int:
        """The rows of all pages, after the last batch."""
        return sum(self.counts.value.values())


class LevelCounts(msgspec.Struct, frozen=True):
    """Takes the counts of the pages of a level, in a task."""

    counts: Accumulator[dict[PageId, int]]
    level: int

    def note(self, task: int, page: int, state: State) -> None:
        """Tell how many rows the operators of a page keep now."""
        self.counts.add({(self.level, task, page): page_rows(state)})


def page_rows(state: State) -> int:
    """The rows of all operators of a page."""
    return sum(row_count(own) for relation, own in state.items() if relation != PLAN)
