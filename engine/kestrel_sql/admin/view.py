"""What admin statements look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import Span, UnknownSourceError
from kestrel_sql.planner.analysis.scope import similar_source
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.topics.records import Record


class TopicStore(Protocol):
    """Topics, in memory or on a broker."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of those that exist."""

    def copies(self, topics: Iterable[str]) -> Mapping[str, tuple[int, int]]:
        """The numbers of partitions and of replicas of topics; those that do not exist are left out."""

    def count(self, topic: str) -> int | None:
        """How many records a topic holds; None where only reading it would tell."""

    def records(self, topic: str) -> tuple[Record, ...]:
        """The records that a topic holds now."""


@dataclass(frozen=True, slots=True)
class View:
    """An engine as admin statements see it; `paused` are ids of queries, `wait` lets things happen for a moment, where any can."""

    session: Session
    broker: TopicStore
    paused: frozenset[str] = frozenset()
    wait: Callable[[], None] | None = None

    def source(self, name: str, span: Span | None) -> Source:
        """The stream or table called `name`.

        Raises:
            UnknownSourceError: there is none.
        """
        source = self.session.catalog.sources.get(name)
        if source is None:
            hint = similar_source(name, self.session.catalog)
            raise UnknownSourceError(f"Could not find STREAM/TABLE '{name}' in the Metastore", span=span, hint=hint)
        return source

    def state(self, query: PersistentQuery) -> str:
        """PAUSED or RUNNING."""
        return "PAUSED" if query.id in self.paused else "RUNNING"

    def readers(self, source: Source) -> list[PersistentQuery]:
        """The queries that read a source."""
        return [query for query in self.session.queries.values() if source.name in query.plan.sources]

    def writers(self, source: Source) -> list[PersistentQuery]:
        """The queries that write a source."""
        return [query for query in self.session.queries.values() if query.plan.sink == source.name]
