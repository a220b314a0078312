"""Leave out the queries that a change of one query cannot reach."""

from __future__ import annotations

from collections.abc import Sequence

from kestrel_qtt.drivers.declared_topics import Topic, topic_of
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.parser import ParsedStatement

_Query = s.CreateAs | s.InsertInto
_KEPT = (s.CreateSource, s.CreateType, s.SetProperty, s.UnsetProperty, s.DefineVariable, s.UndefineVariable)
"""Statements that never depend on a query."""


def unreached(pieces: Sequence[ParsedStatement], changed: int) -> tuple[frozenset[int], frozenset[str]]:
    """Return the indices of queries that neither feed nor read the query at `changed`, and the topics they alone write.

    There are none if a statement of another kind may depend on any query.
    """
    found = [piece.statement for piece in pieces]
    if not all(isinstance(each, (*_KEPT, s.CreateAs, s.InsertInto)) for each in found):
        return frozenset(), frozenset()
    topics: dict[str, Topic] = {
        each.name: topic_of(each) for each in found if isinstance(each, s.CreateSource | s.CreateAs)
    }

    def named(name: str) -> str:
        return topics[name].name if name in topics else name

    queries = {index: each for index, each in enumerate(found) if isinstance(each, _Query)}
    sinks = {index: each.name if isinstance(each, s.CreateAs) else each.target for index, each in queries.items()}
    writes = {index: named(name) for index, name in sinks.items()}
    names = {index: (each.query.source, *(j.source for j in each.query.joins)) for index, each in queries.items()}
    reads = {index: {named(source.name) for source in sources} for index, sources in names.items()}
    kept, size = {changed}, 0
    while len(kept) > size:
        size = len(kept)
        written = {writes[index] for index in kept}
        kept |= {index for index in queries if reads[index] & written}
    size = 0
    while len(kept) > size:
        size = len(kept)
        # INSERT INTO needs the statement that created its target.
        needed = {topic for index in kept for topic in reads[index]} | {writes[index] for index in kept}
        kept |= {index for index in queries if writes[index] in needed}
    gone = frozenset(queries.keys() - kept)
    return gone, frozenset(writes[index] for index in gone) - {writes[index] for index in kept}
