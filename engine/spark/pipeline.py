"""A group of queries as one Spark pipeline: decode, then stages of SQL and levels of state in turn, then encode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from engine.formats.base import SerdeSpec
from engine.functions.registry import Registry
from engine.functions.table import FUNCTIONS
from engine.plan.document import QueryPlan
from engine.spark import pycalls
from engine.spark.builder import build_step
from engine.spark.copartition import check_partitions
from engine.spark.demand import unread_table
from engine.spark.group import Group, QueryBuild
from engine.spark.host import apply_level
from engine.spark.kept import build_kept
from engine.spark.level import Level
from engine.spark.moves import move_batches, moves_only
from engine.spark.pages import can_page, page_batches, page_columns
from engine.spark.passes import Passes
from engine.spark.stage import ENVELOPE, struct_column
from engine.spark.types import name
from engine.spark.wire import WIRE_OUTPUT, decode_batches, encode_batches, packed_batches

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
    """Whether pull queries may ask for its table, which some state then holds (`engine.spark.kept`)."""
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
    def templates(self) -> tuple[str, ...]:
        """The SQL, stage by stage, with a mark where its input stands; written when first asked for, which a depth does not need."""
        return tuple(stage.sql(_SOURCE) for stage in self.group.stages)

    @property
    def texts(self) -> tuple[str, ...]:
        """The SQL to read, over an input called `kestrel_input`."""
        notes = (_MOVED if moves_only(stage) else "" for stage in self.group.stages)
        return tuple(note + text.replace(_SOURCE, "kestrel_input") for note, text in zip(notes, self.templates, strict=True))

    def frame(
        self,
        spark: SparkSession,
        records: DataFrame,
        pages: int = 1,
        partitions: Mapping[str, int] | None = None,
        tasks: Sequence[int] | None = None,
        packed: bool = False,
        has_homes: bool = False,
    ) -> DataFrame:
        """Put the pipeline over `records` (columns of `WIRE_INPUT`); gives the columns of `WIRE_OUTPUT`, or these in blobs.

        `pages` is how many parts the keys of a task are split into, each with one state that one core works on: 1 in a test,
        `PAGES` for a running query. It belongs to the checkpoint: a query keeps its number for ever. `partitions` says how many
        partitions each source topic has; with more than one, state and stream time are kept per partition of the key. A group whose
        queries read different topics of one name gives the number of `tasks` of each query instead. `has_homes` spreads what tasks keep
        across keys over the cores; it belongs to the checkpoint, too.

        Raises:
            StatementError: topics that are joined have different numbers of partitions.
        """
        sources = self.group.sources
        pycalls.register(spark, self.group.python)
        columns = [*ENVELOPE.items(), *((struct_column(x.relation), x.handle.struct_type()) for x in sources)]
        decoded = Passes(records).through(decode_batches(sources), ", ".join(f"{name(c)} {t}" for c, t in columns))
        found = self.tasks(partitions or {}) if tasks is None else tasks
        rows = self.between(spark, decoded, pages, found, has_homes=has_homes)
        if packed:
            return rows.through(packed_batches(self.group.sinks), "rows BINARY").frame()
        return rows.through(encode_batches(self.group.sinks), WIRE_OUTPUT).frame()

    def between(self, spark: SparkSession, rows: Passes, pages: int, tasks: Sequence[int], *, has_homes: bool = False) -> Passes:
        """Put the stages and levels over decoded rows; gives the rows of the sinks."""
        for at, stage in enumerate(self.group.stages):
            if at > 0:
                rows = apply_level(rows, self.level(at), tasks, has_homes=has_homes)
            above = self.level(at + 1) if at + 1 < self.depth else None
            if moves_only(stage) and (above is None or can_page(above, pages)):
                rows = rows.through(move_batches(stage))
                rows = rows if above is None else rows.through(page_batches(above, pages))
            else:
                rows = Passes(self._selected(spark, rows.frame(), at, [] if above is None else page_columns(above, pages)))
        return rows

    def _selected(self, spark: SparkSession, rows: DataFrame, at: int, paged: Sequence[str]) -> DataFrame:
        """A stage as Spark SQL, with the columns that say the page."""
        view = f"kestrel_stage_{next(_views)}"
        rows.createOrReplaceTempView(view)
        text = self.templates[at].replace(_SOURCE, view)
        selected = spark.sql(f"SELECT {', '.join(['*', *paged])} FROM ({text})" if paged else text)
        spark.catalog.dropTempView(view)
        return selected

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


_MOVED = "-- only moves columns, which is done on Arrow (engine/spark/moves.py) and comes to this:\n"


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
            group=group, query=number, query_id=run.plan.query_id, settings=run.settings, serde=run.serde, unread=unread_table(root)
        )
        group.ends[number] = build_kept(root, build, replaceable=run.replaceable) if run.queryable else build_step(root, build)
    return finish(group)


def finish(group: Group) -> Pipeline:
    """Let the sinks of a group whose queries are built stand behind its last stage."""
    last = len(group.stages) - 1
    for sink in group.sinks:
        group.lift(sink.handle, last)
    return Pipeline(group)
