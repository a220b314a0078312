"""The graph of queries as one Spark pipeline: decode records, run stages and levels in turn, encode records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from pyspark.sql import DataFrame

from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.graph import Graph, SinkWrite
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.copartitioning import check_partitions
from kestrel_sql.spark.io.arrow_passes import Pass, Passes
from kestrel_sql.spark.io.blobs import larger
from kestrel_sql.spark.io.topics import WIRE_OUTPUT, decode_batches, encode_batches
from kestrel_sql.spark.pipeline.stage_pass import run_stage
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.state.packing import page_batches
from kestrel_sql.spark.state.row_counts import RowCounts
from kestrel_sql.spark.state.transform_with_state import apply_level

PAGES, _LEAST_PAGES = 32, 8
"""The number of pages that the tasks of a running query share, and the fewest of a task.

Enough to keep the cores busy, few enough to make each call worth its cost: a page takes 4 ms of a batch however few its
rows, so that a join of tables with 64 pages took a tenth more.
"""


class Pipeline(msgspec.Struct, frozen=True, dict=True):
    """A graph, as it runs on Spark."""

    graph: Graph

    @property
    def query_ids(self) -> Sequence[str]:
        """The ids of its queries."""
        return [plan.query_id for plan in self.graph.plans.values()]

    @property
    def sinks(self) -> Sequence[SinkWrite]:
        """The topics that it writes."""
        return self.graph.sinks

    @property
    def passes(self) -> tuple[Pass, ...] | None:
        """All of it as passes over Arrow batches, if it keeps no state, else None."""
        if self.depth > 1:
            return None
        return decode_batches(self.graph.sources), run_stage(self.graph.stages[0]), encode_batches(self.graph.sinks)

    @property
    def depth(self) -> int:
        """The number of stages, one more than stateful levels."""
        return len(self.graph.stages)

    def frame(
        self,
        records: DataFrame | Passes,
        pages: int = 1,
        partitions: Mapping[str, int] | None = None,
        tasks: Sequence[int] | None = None,
        end: tuple[Pass, str] | None = None,
        has_task_pages: bool = False,
        pages_by_task: bool = False,
        counts: RowCounts | None = None,
    ) -> DataFrame:
        """Apply the pipeline to records.

        Args:
            records: rows with the columns of `WIRE_INPUT`.
            pages: the number of pages of each task, each of which one core works on: 1 in a test, `new_pages` in a new
                query. A checkpoint fixes this number.
            partitions: the number of partitions of each source topic. With more than one, each partition of the key has
                its own
                state and stream time.
            tasks: the number of tasks of each query, in place of `partitions`, for a group whose queries read different
                topics
                with the same name.
            end: a function for `mapInArrow` and the schema of its result, to be run in the pass that encodes.
            has_task_pages: whether the state that spans the keys of a task has a page of its own for each task
                (`kestrel_sql.spark.state.packing.task_page`). A checkpoint fixes this as well.
            pages_by_task: whether all pages of a task lie in one of Spark's partitions
                (`kestrel_sql.spark.state.packing.task_pages`), of several tasks. A checkpoint fixes this as well.
            counts: takes how many rows of state there are.

        Returns:
            Rows with the columns of `WIRE_OUTPUT`, or with those of `end`.

        Raises:
            StatementError: joined topics have different numbers of partitions.
        """
        sources = self.graph.sources
        given = records if isinstance(records, Passes) else Passes(records)
        decoded = given.through(larger).through(decode_batches(sources))
        found = self.tasks(partitions or {}) if tasks is None else tasks
        placed = pages if pages_by_task else 0
        rows = self.between(decoded, pages, found, has_task_pages=has_task_pages, placed=placed, counts=counts)
        rows = rows.through(encode_batches(self.graph.sinks))
        if end is None:
            return rows.frame(WIRE_OUTPUT)
        function, schema = end
        return rows.through(function).frame(schema)

    def between(
        self,
        rows: Passes,
        pages: int,
        tasks: Sequence[int],
        *,
        has_task_pages: bool = False,
        placed: int = 0,
        counts: RowCounts | None = None,
    ) -> Passes:
        """Apply the stages and levels to decoded rows; returns the rows of the sinks."""
        for at, stage in enumerate(self.graph.stages):
            if at > 0:
                counted = None if counts is None else counts.of_level(at)
                level = self.level(at)
                rows = apply_level(rows, level, tasks, has_task_pages=has_task_pages, placed=placed, counts=counted)
            rows = rows.through(run_stage(stage))
            if at + 1 < self.depth and pages > 1:
                rows = rows.through(page_batches(self.level(at + 1), pages))
        return rows

    def tasks(self, partitions: Mapping[str, int]) -> tuple[int, ...]:
        """Return the number of tasks of each query.

        The partitions of its widest source topic, where a missing number counts as 1.

        Raises:
            StatementError: joined topics have different numbers of partitions.
        """
        for plan in self.graph.plans.values():
            check_partitions(plan.physical_plan, partitions)
        counts = [1] * (1 + max((source.query for source in self.graph.sources), default=0))
        for source in self.graph.sources:
            counts[source.query] = max(counts[source.query], partitions.get(source.topic, 1))
        return tuple(counts)

    def new_pages(self, partitions: Mapping[str, int]) -> int:
        """Return the number of pages of each task, if a query is new; see `tasks`."""
        return pages_of(max(self.tasks(partitions)))

    def level(self, number: int) -> Level:
        """Return the operators between stage `number - 1` and stage `number`."""
        return Level(tuple(self.graph.levels[number - 1]), tuple(self.graph.entering(number)))


def pages_of(tasks: int) -> int:
    """Return the number of pages of each task for a new query with this number of tasks."""
    return max(_LEAST_PAGES, PAGES // tasks)


def build_pipeline(runs: Iterable[QueryRun], functions: Registry = FUNCTIONS) -> Pipeline:
    """Build the pipeline of a group of queries.

    Raises:
        StatementError: an expression of a plan has a type error.
    """
    return Pipeline(build_graph(runs, functions))
