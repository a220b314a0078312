"""Leave out the queries that a change of one query cannot reach, and those that a query does not need."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kestrel_qtt.drivers.declared_topics import Topic, topic_of
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.parser import ParsedStatement

_Query = s.CreateAs | s.InsertInto
_KEPT = (s.CreateSource, s.CreateType, s.SetProperty, s.UnsetProperty, s.DefineVariable, s.UndefineVariable)
"""Statements that never depend on a query."""


def unreached(pieces: Sequence[ParsedStatement], changed: int) -> tuple[frozenset[int], frozenset[str]]:
    """Return the indices of queries that neither feed nor read the query at `changed`, and the topics they alone write.

    There are none if a statement of another kind may depend on any query.
    """
    graph = _Graph.of([piece.statement for piece in pieces])
    if graph is None:
        return frozenset(), frozenset()
    kept = graph.with_sources(graph.with_readers({changed}))
    gone = frozenset(graph.writes.keys() - kept)
    return gone, frozenset(graph.writes[index] for index in gone) - {graph.writes[index] for index in kept}


def unneeded(statements: Sequence[e.Node], needed: int) -> frozenset[int]:
    """Return the indices of queries that do not feed the query at `needed`, and of sources that none of the rest reads.

    There are none if a statement of another kind may depend on any query, or if there is no query at `needed`.
    """
    graph = _Graph.of(statements)
    if graph is None or needed not in graph.writes:
        return frozenset()
    kept = graph.with_sources({needed})
    names = {name for index in kept for name in graph.names[index]}
    sources = {index for index, each in enumerate(statements) if isinstance(each, s.CreateSource)}
    return frozenset(graph.writes.keys() - kept) | {
        index for index in sources if getattr(statements[index], "name", None) not in names
    }


class _Graph(msgspec.Struct, frozen=True):
    """The names that each query reads and writes to, and the topics of those, by the index of the query."""

    names: dict[int, set[str]]
    reads: dict[int, set[str]]
    writes: dict[int, str]

    @staticmethod
    def of(statements: Sequence[e.Node]) -> _Graph | None:
        """Return the graph of the queries, None if a statement of another kind may depend on any of them."""
        if not all(isinstance(each, (*_KEPT, s.CreateAs, s.InsertInto)) for each in statements):
            return None
        topics: dict[str, Topic] = {
            each.name: topic_of(each) for each in statements if isinstance(each, s.CreateSource | s.CreateAs)
        }

        def named(name: str) -> str:
            return topics[name].name if name in topics else name

        queries = {index: each for index, each in enumerate(statements) if isinstance(each, _Query)}
        sinks = {index: each.name if isinstance(each, s.CreateAs) else each.target for index, each in queries.items()}
        read = {
            index: {each.query.source.name, *(join.source.name for join in each.query.joins)}
            for index, each in queries.items()
        }
        return _Graph(
            {index: {*names, sinks[index]} for index, names in read.items()},
            {index: set(map(named, names)) for index, names in read.items()},
            {index: named(name) for index, name in sinks.items()},
        )

    def with_readers(self, kept: set[int]) -> set[int]:
        """Return the queries with all that read what they write."""
        size = 0
        while len(kept) > size:
            size = len(kept)
            written = {self.writes[index] for index in kept}
            kept = kept | {index for index in self.writes if self.reads[index] & written}
        return kept

    def with_sources(self, kept: set[int]) -> set[int]:
        """Return the queries with all that write what they read."""
        size = 0
        while len(kept) > size:
            size = len(kept)
            # INSERT INTO needs the statement that created its target.
            needed = {topic for index in kept for topic in self.reads[index]} | {self.writes[index] for index in kept}
            kept = kept | {index for index in self.writes if self.writes[index] in needed}
        return kept
