"""The graph of a query over the internal topics that ksqlDB's query has, in place of its sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from kestrel_sql.dataflow.graph import Chain, Graph, SourceRead, Stateful
from kestrel_sql.dataflow.rows import Apply, Log, Rows
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.kafka.takeover.changes import joined_changes
from kestrel_sql.plan.step import Formats, Step
from kestrel_sql.plan.steps.sources import TableSourceV1, TableSourceV2
from kestrel_sql.types.schema import PSEUDO_COLUMNS, Column

Serde = Callable[[SerdeSpec], SerdeSpec]


class Feed(msgspec.Struct, frozen=True):
    """An internal topic that feeds a relation.

    Attributes:
        read: how its records become rows.
        steps: what is done to its rows first.
        is_changes: whether its records are changes of a table (`kestrel_sql.kafka.takeover.changes`).
        level: the level whose operator takes its rows, which skip all steps before; None if they take them all.
    """

    read: SourceRead
    steps: tuple[Apply, ...] = ()
    is_changes: bool = False
    level: int | None = None


def logger_of(graph: Graph, step: Step) -> str:
    """Return the logger of a step, by which sources and operators are found that come from it."""
    (plan,) = graph.plans.values()
    return f"processing.{plan.query_id}.{step.query_context.replace('/', '.')}"


def name_of(step: Step) -> str:
    """Return the name of a step in those of internal topics."""
    return step.query_context.replace("/", "-")


def fed_graph(graph: Graph, feeds: Sequence[Feed]) -> Graph:
    """Return a graph that reads internal topics, all of one level, in place of its sources."""
    stages = [dict(stage) for stage in graph.stages]
    for feed in feeds:
        relation = feed.read.relation
        if feed.level is None:
            chain = stages[0][relation.number]
            stages[0][relation.number] = replace(chain, steps=[*feed.steps, *chain.steps])
        else:
            for stage in stages[: feed.level + 1]:
                stage[relation.number] = Chain(relation, relation, [*feed.steps] if stage is stages[0] else [])
    return replace(graph, stages=stages, sources=[feed.read for feed in feeds])


def table_feed(step: TableSourceV1 | TableSourceV2, read: SourceRead, topic: str, serde: Serde) -> Feed:
    """Return the feed of a table by the changelog of its store, whose records have no key columns in their values."""
    formats = step.state_store_formats if isinstance(step, TableSourceV2) else step.formats
    stored = tuple(each for each in PSEUDO_COLUMNS[step.pseudo_column_version] if each.name != "ROWTIME")
    declared = step.source_schema.value
    given = _read(read, topic, formats, (*declared, *stored), serde)
    width, pseudo = len(declared), len(stored)
    # A reader adds the timestamp behind what it reads.
    places = [*range(width), width + pseudo, *range(width, width + pseudo)]

    def ordered(log: Log, rows: Rows) -> Rows:
        cells = rows.value.cells
        moved = [*(cells[at] for at in places), *cells[len(places) :]]
        return replace(rows, value=replace(rows.value, cells=moved))

    return Feed(given, (ordered,) if pseudo else ())


def repartition_feed(stateful: Stateful, side: int, topic: str, formats: Formats, serde: Serde) -> Feed:
    """Return the feed of an input of an operator by a repartition topic, whose records have all columns of a row."""
    relation = stateful.inputs[side]
    plain = SourceRead(
        query=stateful.query,
        relation=relation.at(0),
        topic=topic,
        key=SerdeSpec(formats.key_format, ()),
        value=SerdeSpec(formats.value_format, ()),
        pseudo_version=0,
        logger=stateful.logger,
    )
    read = _read(plain, topic, formats, relation.schema.value, serde)
    if not relation.has_old_key:
        return Feed(read, level=relation.level)
    return Feed(read, steps=(joined_changes,), is_changes=True, level=relation.level)


def specs(
    topic: str, formats: Formats, keys: tuple[Column, ...], values: tuple[Column, ...], serde: Serde
) -> tuple[SerdeSpec, SerdeSpec]:
    """Return the key and value specs of an internal topic."""
    key = SerdeSpec(formats.key_format, keys, formats.key_features, Side.KEY, topic)
    return serde(key), serde(SerdeSpec(formats.value_format, values, formats.value_features, Side.VALUE, topic))


def _read(like: SourceRead, topic: str, formats: Formats, values: tuple[Column, ...], serde: Serde) -> SourceRead:
    key, value = specs(topic, formats, like.relation.schema.key, values, serde)
    return replace(like, topic=topic, position=0, key=key, value=value, headers=(), pseudo_version=0, strict=True)
