"""A group of queries as one Spark pipeline: decode, then stages of SQL and levels of state in turn, then encode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from engine.formats.base import SerdeSpec
from engine.functions.registry import Registry
from engine.functions.table import FUNCTIONS
from engine.plan.document import QueryPlan
from engine.spark import pycalls
from engine.spark.builder import build_step
from engine.spark.group import Group, QueryBuild
from engine.spark.handles import Handle
from engine.spark.host import apply_level
from engine.spark.stage import ENVELOPE, struct_column
from engine.spark.types import name
from engine.spark.wire import WIRE_OUTPUT, decode_batches, encode_batches

_views = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """One query to run: its plan, the settings it was planned with, and how its serdes know their schemas."""

    plan: QueryPlan
    settings: Mapping[str, str] = field(default_factory=dict)
    serde: Callable[[SerdeSpec], SerdeSpec] = lambda spec: spec


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A built group; `templates` is its SQL, stage by stage, with a mark where its input stands."""

    group: Group
    templates: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The SQL to read, over an input called `kestrel_input`."""
        return tuple(text.replace(_SOURCE, "kestrel_input") for text in self.templates)

    def source_topics(self, query: int) -> frozenset[str]:
        """The topics that a query reads."""
        return frozenset(source.topic for source in self.group.sources if source.query == query)

    def frame(self, spark: SparkSession, records: DataFrame) -> DataFrame:
        """Put the pipeline over `records` (columns of `WIRE_INPUT`); gives the columns of `WIRE_OUTPUT`."""
        group = self.group
        pycalls.register(spark, group.python)
        sources = [(struct_column(x.relation), x.handle.struct_type()) for x in group.sources]
        columns = [(name(c), t) for c, t in (*ENVELOPE.items(), *sources)]
        rows = records.mapInArrow(decode_batches(group.sources), ", ".join(f"{c} {t}" for c, t in columns))
        for level, text in enumerate(self.templates):
            if level > 0:
                rows = apply_level(rows, group.levels[level - 1], self._alive(level))
            view = f"kestrel_stage_{next(_views)}"
            rows.createOrReplaceTempView(view)
            rows = spark.sql(text.replace(_SOURCE, view))
            spark.catalog.dropTempView(view)
        return rows.mapInArrow(encode_batches(group.sinks), WIRE_OUTPUT)

    def _alive(self, level: int) -> list[Handle]:
        return [handle for (at, _), handle in sorted(self.group.entries.items()) if at == level]


_SOURCE = f"kestrel_{uuid4().hex}"
"""Stands for the input of a stage; no literal of a user can hold it, for it would be replaced there, too."""


def build_pipeline(runs: Iterable[QueryRun], functions: Registry = FUNCTIONS) -> Pipeline:
    """Build the pipeline of a group.

    Raises:
        StatementError: an expression of a plan that is not well typed, or that Spark cannot run.
    """
    group = Group(functions)
    for number, run in enumerate(runs):
        build = QueryBuild(group=group, query=number, query_id=run.plan.query_id, settings=run.settings, serde=run.serde)
        handle = build_step(run.plan.physical_plan, build)
        group.ends[number] = handle
    return finish(group)


def finish(group: Group) -> Pipeline:
    """Write the SQL of every stage of a group whose queries are built."""
    last = len(group.stages) - 1
    for sink in group.sinks:
        group.lift(sink.handle, last)
    texts = []
    for level, stage in enumerate(group.stages):
        text = stage.sql(_SOURCE)
        if level < last:
            text = f"SELECT *, 0 AS task, 0 AS page FROM ({text})"
        texts.append(text)
    return Pipeline(group, tuple(texts))
