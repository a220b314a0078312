"""A group of queries as one Spark pipeline: decode, then stages of SQL and levels of state in turn, then encode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.spark.build.demand import unread_table
from kestrel_sql.spark.build.queryable import build_kept
from kestrel_sql.spark.build.walk import build_step
from kestrel_sql.spark.compile import python_functions as pycalls
from kestrel_sql.spark.io.arrow_passes import Pass, Passes
from kestrel_sql.spark.io.blobs import larger
from kestrel_sql.spark.io.topics import WIRE_OUTPUT, decode_batches, encode_batches
from kestrel_sql.spark.pipeline.carried_columns import load_cargo, loaded_columns, unload_cargo
from kestrel_sql.spark.pipeline.copartitioning import check_partitions
from kestrel_sql.spark.pipeline.projection_pass import move_batches, moved_relations
from kestrel_sql.spark.stages.group import Group, QueryBuild
from kestrel_sql.spark.stages.handles import row_columns
from kestrel_sql.spark.stages.stage import Stage, struct_column
from kestrel_sql.spark.state.host import apply_level
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.state.packing import can_page, page_batches, page_columns
from kestrel_sql.spark.types import schema_text

PAGES = 64
"""How many pages the keys of a task have in a running query: enough for the cores, few enough for a state to be worth its call."""

_views = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """One query to run: its plan, the settings it was planned with, and how its serdes know their schemas."""

    plan: QueryPlan
    settings: Mapping[str, str] = field(default_factory=dict)
    serde: Callable[[SerdeSpec], SerdeSpec] = lambda spec: spec
    queryable: bool = False
    """Whether pull queries may ask for its table, which some state then holds (`kestrel_sql.spark.build.queryable`)."""
    replaceable: bool = False
    """Whether CREATE OR REPLACE may change its filters; queryable runs only."""


@dataclass(frozen=True)
class Pipeline:
    """A built group: all its relations have been lifted to the last stage."""

    group: Group

    @property
    def depth(self) -> int:
        """How many stages there are: one more than levels of state."""
        return len(self.group.stages)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The SQL to read, stage by stage, over an input called `kestrel_input`; what is done on Arrow, it says in SQL, too."""
        parts = zip(self.group.stages, self._parts, strict=True)
        return tuple(
            _note(part.moved) + stage.sql("kestrel_input", stage.carried() if part.template else ())
            for stage, part in parts
        )

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        return tuple(_part(stage) for stage in self.group.stages)

    def frame(
        self,
        spark: SparkSession,
        records: DataFrame,
        pages: int = 1,
        partitions: Mapping[str, int] | None = None,
        tasks: Sequence[int] | None = None,
        end: tuple[Pass, str] | None = None,
        has_homes: bool = False,
    ) -> DataFrame:
        """Put the pipeline over `records` (columns of `WIRE_INPUT`); gives the columns of `WIRE_OUTPUT`, or what `end` makes of them.

        `pages` is how many parts the keys of a task are split into, each with one state that one core works on: 1 in a test,
        `PAGES` for a running query. It belongs to the checkpoint: a query keeps its number for ever. `partitions` says how many
        partitions each source topic has; with more than one, state and stream time are kept per partition of the key. A group whose
        queries read different topics of one name gives the number of `tasks` of each query instead. `has_homes` spreads what tasks keep
        across keys over the cores; it belongs to the checkpoint, too. `end` is a function of Arrow and the columns that it gives; it is
        part of the pass that encodes.

        Raises:
            StatementError: topics that are joined have different numbers of partitions.
        """
        sources = self.group.sources
        pycalls.register(spark, self.group.python)
        decoded = Passes(records).through(larger).through(decode_batches(sources))
        found = self.tasks(partitions or {}) if tasks is None else tasks
        rows = self.between(spark, decoded, pages, found, has_homes=has_homes)
        rows = rows.through(encode_batches(self.group.sinks))
        if end is None:
            return rows.frame(WIRE_OUTPUT)
        function, schema = end
        return rows.through(function).frame(schema)

    def between(
        self, spark: SparkSession, rows: Passes, pages: int, tasks: Sequence[int], *, has_homes: bool = False
    ) -> Passes:
        """Put the stages and levels over decoded rows; gives the rows of the sinks."""
        for at, (stage, part) in enumerate(zip(self.group.stages, self._parts, strict=True)):
            if at > 0:
                rows = apply_level(rows, self.level(at), tasks, has_homes=has_homes)
            above = self.level(at + 1) if at + 1 < self.depth else None
            if part.moved or part.template is None:
                rows = rows.through(move_batches(stage, part.moved))
            if part.template is not None or (above is not None and not can_page(above, pages)):
                paged = [] if above is None else page_columns(above, pages)
                columns = {
                    **self._columns(at),
                    **{struct_column(relation): stage.types[relation] for relation in part.moved},
                }
                rows = _computed(spark, rows, columns, part, paged)
            elif above is not None and pages > 1:
                rows = rows.through(page_batches(above, pages))
        return rows

    def _columns(self, at: int) -> Mapping[str, str]:
        """The columns that come to a stage, with their Spark types."""
        return row_columns(self.level(at).alive if at > 0 else [source.handle for source in self.group.sources])

    def tasks(self, partitions: Mapping[str, int]) -> tuple[int, ...]:
        """How many tasks each query has: as many as its widest source topic has partitions; topics without a number have one.

        Raises:
            StatementError: topics that are joined have different numbers of partitions.
        """
        check_partitions(self.group, partitions)
        counts = [1] * (1 + max((source.query for source in self.group.sources), default=0))
        for source in self.group.sources:
            counts[source.query] = max(counts[source.query], partitions.get(source.topic, 1))
        return tuple(counts)

    def level(self, number: int) -> Level:
        """The operators between stage `number - 1` and stage `number`."""
        alive = [handle for (at, _), handle in sorted(self.group.entries.items()) if at == number]
        return Level(tuple(self.group.levels[number - 1]), tuple(alive))


_SOURCE = f"kestrel_{uuid4().hex}"
"""Stands for the input of a stage; no literal of a user can hold it, for it would be replaced there, too."""


@dataclass(frozen=True, slots=True)
class _Part:
    """How a stage is done: the relations that are moved on Arrow, the SQL over the rest if there is any, and what goes past it."""

    moved: frozenset[int]
    template: str | None
    carried: frozenset[str]


def _part(stage: Stage) -> _Part:
    moved = moved_relations(stage)
    rest = stage.without(moved)
    carried = rest.carried()
    return _Part(moved, rest.sql(_SOURCE, carried) if any(rest.operations.values()) else None, carried)


def _note(moved: frozenset[int]) -> str:
    names = ", ".join(struct_column(relation) for relation in sorted(moved))
    return f"-- on Arrow, which comes to this: {names}\n" if moved else ""


def _computed(
    spark: SparkSession, rows: Passes, columns: Mapping[str, str], part: _Part, paged: Sequence[str]
) -> Passes:
    """Rows of these columns behind the SQL of a stage, which sees only those that it looks at."""
    carried = part.carried
    if not carried:
        return Passes(_selected(spark, rows.frame(schema_text(columns)), part.template, paged))
    loaded = rows.through(load_cargo(carried)).frame(schema_text(loaded_columns(columns, carried)))
    return Passes(_selected(spark, loaded, part.template, paged)).through(unload_cargo(carried))


def _selected(spark: SparkSession, rows: DataFrame, template: str | None, paged: Sequence[str]) -> DataFrame:
    """Rows behind the SQL of a stage, with the columns that say the page."""
    view = f"kestrel_stage_{next(_views)}"
    rows.createOrReplaceTempView(view)
    source = view if template is None else f"({template.replace(_SOURCE, view)})"
    selected = spark.sql(f"SELECT {', '.join(['*', *paged])} FROM {source}")
    spark.catalog.dropTempView(view)
    return selected


def build_pipeline(runs: Iterable[QueryRun], functions: Registry = FUNCTIONS) -> Pipeline:
    """Build the pipeline of a group.

    Raises:
        StatementError: an expression of a plan that is not well typed, or that Spark cannot run.
    """
    group = Group(functions)
    for number, run in enumerate(runs):
        root = run.plan.physical_plan
        group.plans[number] = run.plan
        build = QueryBuild(
            group=group,
            query=number,
            query_id=run.plan.query_id,
            settings=run.settings,
            serde=run.serde,
            unread=unread_table(root),
        )
        group.ends[number] = (
            build_kept(root, build, replaceable=run.replaceable) if run.queryable else build_step(root, build)
        )
    return finish(group)


def finish(group: Group) -> Pipeline:
    """Let the sinks of a group whose queries are built stand behind its last stage."""
    last = len(group.stages) - 1
    for sink in group.sinks:
        group.lift(sink.handle, last)
    return Pipeline(group)
