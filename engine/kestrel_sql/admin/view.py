"""Defines the engine state that admin statements read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import Span
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.internal_topics import is_hidden
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.topics.records import Record


class TopicStore(Protocol):
    """Topics, in memory or on a broker."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of all topics."""

    def partitions_and_replicas(self, topics: Iterable[str]) -> Mapping[str, tuple[int, int]]:
        """The numbers of partitions and replicas of the topics that exist."""

    def assignments(self) -> Iterable[Mapping[str, int]]:
        """How many partitions the members of each consumer group read, by topic."""

    def retention_ms(self, topic: str) -> int | None:
        """How long (ms) a topic keeps records, -1 for ever; None if that is not known."""

    def count(self, topic: str) -> int | None:
        """The number of records in a topic; None if only reading the topic would tell."""

    def records(self, topic: str) -> tuple[Record, ...]:
        """The records in a topic now."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What stopped a query, and when (ms); `is_of_user` if records or statements are the cause, and not the system."""

    message: str
    time: int
    is_of_user: bool


class PartitionOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """How far a query has read a partition, which holds the offsets from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int
    committed: int


class EngineView(msgspec.Struct, frozen=True):
    """An engine as admin statements see it.

    Attributes:
        session: the catalog, queries and properties.
        broker: the topics.
        paused: the ids of paused queries.
        failed: what stopped each query that failed, by id.
        starting: the ids of queries that have records to read and have not read any yet.
        offsets: tells how far the query with an id has read; it asks the broker.
        counts: the records in and out of each query, by id.
        base: the properties of the server itself, which no statement has set.
        host: where the server answers that runs the queries, such as `localhost:8088`; empty without one.
        wait: waits a moment for topics or schemas to change; None if they cannot change.
    """

    session: Session
    broker: TopicStore
    paused: frozenset[str] = frozenset()
    failed: Mapping[str, Failure] = {}
    starting: frozenset[str] = frozenset()
    offsets: Callable[[str], Sequence[PartitionOffsets]] = lambda _: ()
    counts: Mapping[str, tuple[int, int]] = {}
    wait: Callable[[], None] | None = None
    base: Config = msgspec.field(default_factory=Config)
    host: str = ""

    def source(self, name: str, span: Span | None) -> Source:
        """Return the stream or table `name`.

        Raises:
            UnknownSourceError: it does not exist.
        """
        source = self.session.catalog.sources.get(name)
        if source is None:
            message = f"Could not find STREAM/TABLE '{name}' in the Metastore"
            raise self.session.catalog.missing_source(message, name, span)
        return source

    def topics(self, *, hidden: bool) -> list[str]:
        """The names of the topics, also of those without records; `hidden` adds those of `ksql.hidden.topics`."""
        names = {*self.broker.topics, *(source.topic for source in self.session.catalog.sources.values())}
        return sorted(name for name in names if hidden or not is_hidden(name, self.session.config))

    def state(self, query: PersistentQuery) -> str:
        """Return `ERROR`, `PAUSED`, `STARTING` or `RUNNING`."""
        if query.id in self.failed:
            return "ERROR"
        if query.id in self.paused:
            return "PAUSED"
        return "STARTING" if query.id in self.starting else "RUNNING"

    def readers(self, source: Source) -> list[PersistentQuery]:
        """The queries that read a source."""
        return [query for query in self.session.queries.values() if source.name in query.plan.sources]

    def writers(self, source: Source) -> list[PersistentQuery]:
        """The queries that write a source."""
        return [query for query in self.session.queries.values() if query.plan.sink == source.name]
