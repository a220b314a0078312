"""Graphs of steps: each node makes rows of those of the nodes before it, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kestrel_sql.dataflow.query import Build
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Made, Row, Rows
from kestrel_sql.operators.operator import Operator, Scope
from kestrel_sql.topics.records import Record

Apply = Callable[..., Rows]
"""Makes the rows of a node of those of its inputs, and of what it makes besides: `apply(made, *inputs)`."""

Numbered = Sequence[tuple[int, Record]]
"""Records with their numbers in the feed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow(Relation):
    """A relation with the number of the node that makes its rows.

    `origin` is the number of the source or operator whose rows they are; steps without state keep it.
    """

    node: int
    origin: int = -1


@dataclass(frozen=True, slots=True)
class Node:
    """A step without state."""

    inputs: tuple[int, ...]
    apply: Apply


@dataclass(frozen=True, slots=True)
class Source:
    """Reads a topic."""

    topic: str
    read: Callable[[Made, Numbered], Rows]


@dataclass(frozen=True, slots=True)
class Stateful:
    """A stateful operator, the relations that it reads (left, then right), and the one that it makes."""

    operator: Operator
    inputs: tuple[Flow, ...]
    output: Flow
    logger: str


AnyNode = Node | Source | Stateful


@dataclass(slots=True)
class Graph:
    """The nodes of a query, each after those that it reads; `end` is the result of its last step."""

    nodes: list[AnyNode] = field(default_factory=list)
    end: Flow | None = None

    def add(self, node: AnyNode) -> int:
        """Add a node, and return its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    @property
    def stateful(self) -> dict[int, Stateful]:
        """The nodes with state, by number."""
        return {number: node for number, node in enumerate(self.nodes) if isinstance(node, Stateful)}

    @property
    def sources(self) -> list[Source]:
        """The nodes that read topics."""
        return [node for node in self.nodes if isinstance(node, Source)]


@dataclass(slots=True, kw_only=True)
class GraphQuery(Build[Flow]):
    """A query while its graph is built."""

    graph: Graph = field(default_factory=Graph)

    def source(self, facts: Flow, read: Callable[[Made, int, Numbered], Rows]) -> Flow:
        """Add a source of the facts' topic; it is told its number among those of the topic."""
        position = sum(source.topic == facts.topic for source in self.graph.sources)
        node = self.graph.add(Source(facts.topic, lambda made, records: read(made, position, records)))
        return replace(facts, node=node, origin=node)

    def then(self, source: Flow, apply: Callable[[Made, Rows], Rows], facts: Flow) -> Flow:
        """Add a step over one relation; `facts` are those of what it makes."""
        return replace(facts, node=self.graph.add(Node((source.node,), apply)))

    def each(self, source: Flow, change: Callable[[Row], Row | None], facts: Flow) -> Flow:
        """Add a step that changes each row by itself, and drops it where the result is None."""

        def apply(made: Made, rows: Rows) -> Rows:
            return [changed for changed in map(change, rows) if changed is not None]

        return self.then(source, apply, facts)

    def with_keys(self, source: Flow) -> Flow:
        """Add a step that drops the rows without a key; the key has one column."""
        return self.each(source, lambda row: None if row.key is None or row.key[0] is None else row, source)

    def without_headers(self, source: Flow, logger: str) -> Flow:
        """Add a step that takes the headers of rows away."""
        return self.each(source, lambda row: replace(row, headers=()), source)

    def stateful(self, made: tuple[Operator, Flow], inputs: tuple[Flow, ...], logger: str) -> Flow:
        """Add an operator over `inputs`, with the facts of what it gives."""
        operator, facts = made
        node = len(self.graph.nodes)
        output = replace(facts, node=node, origin=node, rekeyed=operator.scope is Scope.QUERY)
        self.graph.add(Stateful(operator, inputs, output, logger))
        return output
