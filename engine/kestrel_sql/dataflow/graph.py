"""Graphs: the steps of one or more queries, as stages without state between levels of stateful operators."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kestrel_sql.dataflow.query import Query
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Apply
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.functions.registry import Registry
from kestrel_sql.operators.operator import Operator, Scope
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.plan.ingestion import IngestionSpec
from kestrel_sql.plan.step import WindowInfo
from kestrel_sql.types.schema import Column


class SourceRead(msgspec.Struct, frozen=True, kw_only=True):
    """A relation that is read from a topic, with all that is needed to turn bytes into rows.

    Attributes:
        query: the number of the query.
        relation: the relation; records come in with the columns of `key` and `value`.
        topic: the topic.
        position: the number of the source among those of the topic and the query.
        headers: the value columns that headers fill.
        pseudo_version: which columns with metadata are added (rules P6.1).
        window: the window of the keys.
        logger: the logger of the step.
        ingestion: how messages become rows, for CREATE SOURCE; `key` and `value` then hold the columns of messages.
        strict: whether a record that cannot be read stops the query.
        silent: whether an unreadable record is dropped without a log entry, because another relation logs it.
        logs_rows: whether entries of the processing log contain the bytes that could not be read.
    """

    query: int
    relation: Relation
    topic: str
    position: int = 0
    key: SerdeSpec
    value: SerdeSpec
    headers: tuple[Column, ...] = ()
    pseudo_version: int
    window: WindowInfo | None = None
    logger: str
    ingestion: IngestionSpec | None = None
    strict: bool = False
    silent: bool = False
    logs_rows: bool = False


class SinkWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A relation that is written to a topic.

    Attributes:
        query: the number of the query.
        relation: the relation.
        topic: the topic.
        window: the window of the keys.
        logger: the logger of the step.
        guarded: whether a row that cannot be written is dropped instead of failing the query. So it is below a
            TIMESTAMP column, and where a DECIMAL may be wider than its type.
        logs_rows: whether entries of the processing log contain the row that could not be written.
    """

    query: int
    relation: Relation
    topic: str
    key: SerdeSpec
    value: SerdeSpec
    window: WindowInfo | None
    logger: str
    guarded: bool
    logs_rows: bool = False


class Stateful(msgspec.Struct, frozen=True, kw_only=True):
    """A stateful operator at a level: its inputs (left, then right), and the relation that it produces."""

    query: int
    operator: Operator
    inputs: tuple[Relation, ...]
    output: Relation
    logger: str


class Chain(msgspec.Struct):
    """The steps without state on a relation in a stage, the relation that enters them, and that after them."""

    entry: Relation
    end: Relation
    steps: list[Apply] = []
    texts: list[str] = []
    """What each step does, for people."""


class Graph(msgspec.Struct):
    """The steps of several queries.

    Attributes:
        functions: the functions that the expressions call.
        stages: the chain of each relation between two levels, by the number of the relation.
        levels: the stateful operators after each stage but the last.
        sources: the relations that are read.
        sinks: the relations that are written, once all queries are built at the last stage.
        ends: the result of each query's root step, by query number.
        plans: the plan of each query, by query number.
    """

    functions: Registry
    stages: list[dict[int, Chain]] = msgspec.field(default_factory=lambda: [{}])
    levels: list[list[Stateful]] = []
    sources: list[SourceRead] = []
    sinks: list[SinkWrite] = []
    ends: dict[int, Relation] = {}
    plans: dict[int, QueryPlan] = {}
    relations: int = 0

    def new_relation(self, facts: Relation, level: int) -> Relation:
        """Return a relation with a number of its own, which enters a stage."""
        relation = replace(facts, number=self.relations, level=level)
        self.relations += 1
        self._enter(relation)
        return relation

    def lift(self, relation: Relation, level: int) -> Relation:
        """Let a relation pass unchanged up to `level`."""
        for between in range(relation.level + 1, level + 1):
            self._enter(replace(relation, level=between))
        return replace(relation, level=level)

    def _enter(self, relation: Relation) -> None:
        while len(self.stages) <= relation.level:
            self.stages.append({})
            self.levels.append([])
        self.stages[relation.level].setdefault(relation.number, Chain(relation, relation))

    def entering(self, level: int) -> Sequence[Relation]:
        """Return the relations that enter a stage, by number."""
        return [chain.entry for _, chain in sorted(self.stages[level].items())]

    def stateful(self, relation: Relation) -> Stateful | None:
        """Return the operator that makes a relation; None if a source does.

        Steps without state keep the number of their relation.
        """
        found = (each for level in self.levels for each in level if each.output.number == relation.number)
        return next(found, None)


class GraphQuery(Query, kw_only=True):
    """A query while its steps are added to a graph."""

    graph: Graph
    number: int = 0

    def source(self, read: SourceRead) -> Relation:
        """Add a source."""
        relation = self.graph.new_relation(read.relation, 0)
        position = sum((each.query, each.topic) == (read.query, read.topic) for each in self.graph.sources)
        self.graph.sources.append(replace(read, relation=relation, position=position))
        return relation

    def then(self, source: Relation, apply: Apply, result: Relation, text: str) -> Relation:
        """Add a step without state over a relation.

        Args:
            source: the relation.
            apply: the step.
            result: the facts of what it makes.
            text: what it does, for people.
        """
        chain = self.graph.stages[source.level][source.number]
        chain.steps.append(apply)
        chain.texts.append(text)
        chain.end = replace(result, number=source.number, level=source.level)
        return chain.end

    def stateful(self, made: tuple[Operator, Relation], inputs: tuple[Relation, ...], logger: str) -> Relation:
        """Add an operator over `inputs`, with the facts of what it gives, and return its output."""
        operator, facts = made
        level = max(each.level for each in inputs)
        lifted = tuple(self.graph.lift(each, level) for each in inputs)
        # A query-wide operator has no tasks: its output rows go back to the tasks of their keys.
        output = self.graph.new_relation(replace(facts, rekeyed=operator.scope is Scope.QUERY), level + 1)
        stateful = Stateful(query=self.number, operator=operator, inputs=lifted, output=output, logger=logger)
        self.graph.levels[level].append(stateful)
        return output

    def sink(self, write: SinkWrite) -> None:
        """Add a sink."""
        self.graph.sinks.append(write)
