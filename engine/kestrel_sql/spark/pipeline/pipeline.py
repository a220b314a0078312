"""A group of queries as one Spark pipeline: decode records, run stages and stateful levels in turn, encode records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.dataflow.demand import unread_table
from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.copartitioning import check_partitions
from kestrel_sql.spark.build.queryable import build_queryable
from kestrel_sql.spark.build.walk import build_step
from kestrel_sql.spark.compile import python_functions as pycalls
from kestrel_sql.spark.io.arrow_passes import Pass, Passes
from kestrel_sql.spark.io.blobs import larger
from kestrel_sql.spark.io.topics import WIRE_OUTPUT, decode_batches, encode_batches
from kestrel_sql.spark.pipeline.carried_columns import pack_carried, packed_columns, unpack_carried
from kestrel_sql.spark.pipeline.projection_pass import arrow_relations, project_batches
from kestrel_sql.spark.stages.group import Group, QueryBuild, SinkWrite
from kestrel_sql.spark.stages.handles import Handle, row_columns
from kestrel_sql.spark.stages.stage import Stage, struct_column
from kestrel_sql.spark.state.host import apply_level
from kestrel_sql.spark.state.level import Level, rows_of
from kestrel_sql.spark.state.packing import can_page, page_batches, page_columns
from kestrel_sql.spark.types import schema_text

PAGES, _LEAST_PAGES = 32, 8
"""The number of pages that the tasks of a running query share, and the fewest of a task.

Enough to keep the cores busy, few enough to make each call worth its cost: a page takes 4 ms of a batch however few its
rows, so that a join of tables with 64 pages took a tenth more.
"""

_views = count()


@dataclass(frozen=True)
class Pipeline:
    """A group that is built: the relations of all sinks have been lifted to the last stage."""

    group: Group

    @property
    def query_ids(self) -> Sequence[str]:
        """The ids of its queries."""
        return [plan.query_id for plan in self.group.plans.values()]

    @property
    def sinks(self) -> Sequence[SinkWrite]:
        """The topics that it writes."""
        return self.group.sinks

    @property
    def passes(self) -> tuple[Pass, ...] | None:
        """All of it as passes over Arrow batches, if it keeps no state and needs no SQL, else None."""
        if self.depth > 1 or self._parts[0].template is not None:
            return None
        projected = project_batches(self.group.stages[0], self._parts[0].on_arrow)
        return decode_batches(self.group.sources), projected, encode_batches(self.group.sinks)

    @property
    def depth(self) -> int:
        """The number of stages, one more than stateful levels."""
        return len(self.group.stages)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The SQL of each stage over a view `kestrel_input`, for people.

        Passthrough projections are shown as SQL, too.
        """
        parts = zip(self.group.stages, self._parts, strict=True)
        return tuple(
            _arrow_comment(part.on_arrow) + stage.sql("kestrel_input", stage.carried() if part.template else ())
            for stage, part in parts
        )

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        return tuple(_part(stage, rows_of(self._handles(at))) for at, stage in enumerate(self.group.stages))

    def frame(
        self,
        spark: SparkSession,
        records: DataFrame | Passes,
        pages: int = 1,
        partitions: Mapping[str, int] | None = None,
        tasks: Sequence[int] | None = None,
        end: tuple[Pass, str] | None = None,
        has_task_pages: bool = False,
    ) -> DataFrame:
        """Apply the pipeline to records.

        Args:
            spark: the session of `records`.
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

        Returns:
            Rows with the columns of `WIRE_OUTPUT`, or with those of `end`.

        Raises:
            StatementError: joined topics have different numbers of partitions.
        """
        sources = self.group.sources
        pycalls.register(spark, self.group.python)
        given = records if isinstance(records, Passes) else Passes(records)
        decoded = given.through(larger).through(decode_batches(sources))
        found = self.tasks(partitions or {}) if tasks is None else tasks
        rows = self.between(spark, decoded, pages, found, has_task_pages=has_task_pages)
        rows = rows.through(encode_batches(self.group.sinks))
        if end is None:
            return rows.frame(WIRE_OUTPUT)
        function, schema = end
        return rows.through(function).frame(schema)

    def between(
        self, spark: SparkSession, rows: Passes, pages: int, tasks: Sequence[int], *, has_task_pages: bool = False
    ) -> Passes:
        """Apply the stages and levels to decoded rows; returns the rows of the sinks."""
        for at, (stage, part) in enumerate(zip(self.group.stages, self._parts, strict=True)):
            if at > 0:
                rows = apply_level(rows, self.level(at), tasks, has_task_pages=has_task_pages)
            above = self.level(at + 1) if at + 1 < self.depth else None
            if part.on_arrow or part.template is None:
                rows = rows.through(project_batches(stage, part.on_arrow))
            if part.template is not None or (above is not None and not can_page(above, pages)):
                paged = [] if above is None else page_columns(above, pages)
                columns = {
                    **self._columns(at),
                    **{struct_column(relation): stage.types[relation] for relation in part.on_arrow},
                }
                rows = _computed(spark, rows, columns, part, paged)
            elif above is not None and pages > 1:
                rows = rows.through(page_batches(above, pages))
        return rows

    def _columns(self, at: int) -> Mapping[str, str]:
        """The columns of the rows that enter a stage, with their Spark types."""
        return row_columns(self._handles(at))

    def _handles(self, at: int) -> Sequence[Handle]:
        """The relations that enter a stage."""
        return self.level(at).alive if at > 0 else [source.handle for source in self.group.sources]

    def tasks(self, partitions: Mapping[str, int]) -> tuple[int, ...]:
        """Return the number of tasks of each query.

        The partitions of its widest source topic, where a missing number counts as 1.

        Raises:
            StatementError: joined topics have different numbers of partitions.
        """
        for plan in self.group.plans.values():
            check_partitions(plan.physical_plan, partitions)
        counts = [1] * (1 + max((source.query for source in self.group.sources), default=0))
        for source in self.group.sources:
            counts[source.query] = max(counts[source.query], partitions.get(source.topic, 1))
        return tuple(counts)

    def new_pages(self, partitions: Mapping[str, int]) -> int:
        """Return the number of pages of each task, if a query is new; see `tasks`."""
        return pages_of(max(self.tasks(partitions)))

    def level(self, number: int) -> Level:
        """Return the operators between stage `number - 1` and stage `number`."""
        alive = [handle for (at, _), handle in sorted(self.group.entries.items()) if at == number]
        return Level(tuple(self.group.levels[number - 1]), tuple(alive))


_SOURCE = f"kestrel_{uuid4().hex}"
"""Stands for the input view in the SQL of a stage.

It is random, because it would be replaced in a user's string literal, too.
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """How a stage runs.

    The relations projected on Arrow, the SQL of the others (None without any), and the columns carried past it.
    """

    on_arrow: frozenset[int]
    template: str | None
    carried: frozenset[str]


def _part(stage: Stage, columns: pa.Schema) -> _Part:
    on_arrow = arrow_relations(stage, columns)
    rest = stage.without(on_arrow)
    carried = rest.carried()
    return _Part(on_arrow, rest.sql(_SOURCE, carried) if any(rest.operations.values()) else None, carried)


def _arrow_comment(on_arrow: frozenset[int]) -> str:
    names = ", ".join(struct_column(relation) for relation in sorted(on_arrow))
    return f"-- runs on Arrow, shown as SQL: {names}\n" if on_arrow else ""


def _computed(
    spark: SparkSession, rows: Passes, columns: Mapping[str, str], part: _Part, paged: Sequence[str]
) -> Passes:
    """Apply the SQL of a stage to rows with these columns; the SQL gets only the columns that it reads."""
    carried = part.carried
    if not carried:
        return Passes(_selected(spark, rows.frame(schema_text(columns)), part.template, paged))
    packed = rows.through(pack_carried(carried)).frame(schema_text(packed_columns(columns, carried)))
    return Passes(_selected(spark, packed, part.template, paged)).through(unpack_carried(carried))


def _selected(spark: SparkSession, rows: DataFrame, template: str | None, paged: Sequence[str]) -> DataFrame:
    """Apply the SQL of a stage, and add the columns that name the page."""
    view = f"kestrel_stage_{next(_views)}"
    rows.createOrReplaceTempView(view)
    source = view if template is None else f"({template.replace(_SOURCE, view)})"
    selected = spark.sql(f"SELECT {', '.join(['*', *paged])} FROM {source}")
    spark.catalog.dropTempView(view)
    return selected


def pages_of(tasks: int) -> int:
    """Return the number of pages of each task for a new query with this number of tasks."""
    return max(_LEAST_PAGES, PAGES // tasks)


def build_pipeline(runs: Iterable[QueryRun], functions: Registry = FUNCTIONS) -> Pipeline:
    """Build the pipeline of a group.

    Raises:
        StatementError: an expression of a plan has a type error, or Spark cannot run it.
    """
    group = Group(functions)
    for number, run in enumerate(runs):
        root = run.plan.physical_plan
        group.plans[number] = run.plan
        build = QueryBuild(
            group=group,
            query=number,
            query_id=run.plan.query_id,
            functions=functions,
            settings=run.settings,
            serde=run.serde,
            unread=unread_table(root),
        )
        group.ends[number] = (
            build_queryable(root, build, replaceable=run.replaceable) if run.queryable else build_step(root, build)
        )
    return finish(group)


def finish(group: Group) -> Pipeline:
    """Lift the relations of all sinks to the last stage, once the queries of the group are built."""
    last = len(group.stages) - 1
    for sink in group.sinks:
        group.lift(sink.handle, last)
    return Pipeline(group)
