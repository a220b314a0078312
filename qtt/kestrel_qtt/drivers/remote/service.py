"""A server that is running, as a case uses it: statements, how far its queries have read, and the end of all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Event, Lock
from typing import Any

import msgspec

from kestrel_sql.cli.remote import RemoteServer
from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.sql.nodes.kafka_source import CreateKafkaSource
from kestrel_sql.sql.nodes.statements import CreateAs, CreateSource, CreateType, InsertInto
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.types.sql_types import quote

PATIENCE_S = 60.0
_LOOK_S = 0.1
_TURNS = 5
"""How often a command is sent that ksqlDB did not write because it was busy with another one."""

_BUSY = (
    "newer producer with the same transactionalId",
    "waiting for command topic consumer to process command",
    "attempted a transactional operation in an invalid state",
)

_ERRORS_S = 2.0
"""Seconds between two looks whether a query has died."""


class DiedError(Exception):
    """A query that the server has stopped; the text says why."""


class Service(msgspec.Struct):
    """The statements of one case on a server; `stop` ends the waiting for its queries.

    `topics` names those of the broker. `commands` is held by one case at a time: ksqlDB fences who writes its command
    topic beside another.
    """

    server: RemoteServer
    offsets: BrokerOffsets
    topics: Callable[[], Iterable[str]]
    stop: Event
    commands: Lock
    queries: list[str] = []
    _made: list[str] = []

    def carry_out(self, parsed: ParsedStatement, properties: Mapping[str, object]) -> None:
        """Send a statement.

        Raises:
            StatementError: the server refuses it.
        """
        match parsed.statement:
            case CreateSource(kind=kind, name=name) | CreateAs(kind=kind, name=name):
                self._made.append(f"DROP {kind.value} IF EXISTS {quote(name)};")
            case CreateKafkaSource(name=name):
                # By its envelope it is one or the other.
                self._made += [f"DROP {kind} IF EXISTS {quote(name)};" for kind in ("STREAM", "TABLE")]
            case CreateType(name=name):
                self._made.append(f"DROP TYPE IF EXISTS {quote(name)};")
            case _:
                pass
        for entity in self._commanded(parsed.text, properties):
            query = (entity.get("commandStatus") or {}).get("queryId")
            # A query that is replaced keeps its id, and that of a source table ends with it.
            if query and query not in self.queries and isinstance(parsed.statement, CreateAs | InsertInto):
                self.queries.append(query)

    def settle(self, session: Session) -> None:
        """Wait until the queries have read all that their topics hold; `session` has planned the same queries.

        Raises:
            DiedError: the server has stopped one.
            TimeoutError: they do not read to the end.
            KeyboardInterrupt: the run is to end.
        """
        planned = [query for query in session.queries.values() if query.plan.sink is not None]
        started = looked = time.monotonic()
        quiet = 0
        # What a query wrote at last is there for the next one only afterwards.
        while quiet < len(planned) + 1:
            quiet = quiet + 1 if self._has_read(session, planned) else 0
            now = time.monotonic()
            if now > looked + _ERRORS_S:
                self._check_alive()
                looked = now
            if now > started + PATIENCE_S:
                raise TimeoutError(f"the queries have not read their topics within {PATIENCE_S:.0f} s")
            if not quiet and self.stop.wait(_LOOK_S):
                raise KeyboardInterrupt

    def clear(self) -> None:
        """End the queries, the last first, and drop what the case has made."""
        texts = [*(f"TERMINATE {quote(query)};" for query in reversed(self.queries)), *reversed(self._made)]
        try:
            self._commanded(" ".join(texts), {})
        except EngineError:
            # One that is refused, for what it drops is not there any more, holds up the others.
            for text in texts:
                with suppress(EngineError):
                    self._commanded(text, {})

    def sweep(self, prefix: str) -> None:
        """Clear whatever has names with a prefix: what was refused when its case ended."""
        queries, streams, tables, types = self._ask("SHOW QUERIES; SHOW STREAMS; SHOW TABLES; SHOW TYPES;", {})
        self.queries += [each["id"] for each in queries["queries"] if prefix in each["id"]]
        named = [("TYPE", name) for name in types["types"]]
        named += [("STREAM", each["name"]) for each in streams["streams"]]
        named += [("TABLE", each["name"]) for each in tables["tables"]]
        # Twice, for one that another one reads is refused.
        self._made += [f"DROP {kind} IF EXISTS {quote(name)};" for kind, name in named if name.startswith(prefix)] * 2
        if self.queries or self._made:
            self.clear()

    def _has_read(self, session: Session, planned: Sequence[PersistentQuery]) -> bool:
        sinks = dict.fromkeys(query.plan.sink or "" for query in planned)
        if not sinks:
            return True
        # The offsets of the ends come first, for a query may read on meanwhile.
        between = self._between()
        topics = {*between, *(source.topic for source in session.catalog.sources.values())}
        ends = self.offsets.written(
            position for found in self.offsets.topics(topics).values() for position in found.positions
        )
        described = self._ask(" ".join(f"DESCRIBE {quote(sink)} EXTENDED;" for sink in sinks), {})
        read = dict(_read(entity["sourceDescription"] for entity in described))
        sources = session.catalog.sources
        for query, query_id in zip(planned, self.queries, strict=False):
            at = next((offsets for group, offsets in read.items() if group.endswith(f"query_{query_id}")), {})
            own = {sources[name].topic for name in query.plan.sources if name in sources}
            own |= {topic for topic in between if f"query_{query_id}-" in topic}
            if any(at.get(position, 0) < end for position, end in ends.items() if position[0] in own):
                return False
        return True

    def _between(self) -> set[str]:
        """The topics of the broker that the queries write for themselves to read; nobody reads changelogs."""
        own = tuple(f"query_{query}-" for query in self.queries)
        return {name for name in self.topics() if any(each in name for each in own) and not name.endswith("-changelog")}

    def _check_alive(self) -> None:
        # ksqlDB starts a query again that has died, so that its state says nothing.
        for entity in self._ask(" ".join(f"EXPLAIN {quote(query)};" for query in self.queries), {}):
            described = entity["queryDescription"]
            for error in described["queryErrors"]:
                raise DiedError(f"{described['id']}: {error['errorMessage']}")

    def _commanded(self, text: str, properties: Mapping[str, object]) -> list[dict[str, Any]]:
        """Send statements that change the server, again where somebody else's came between."""
        with self.commands:
            for _ in range(_TURNS):
                try:
                    return self._ask(text, properties)
                except EngineError as error:
                    if not any(said in error.message for said in _BUSY):
                        raise
            return self._ask(text, properties)

    def _ask(self, text: str, properties: Mapping[str, object]) -> list[dict[str, Any]]:
        body = {"ksql": text, "streamsProperties": properties}
        found = self.server.ask("POST", "/ksql", body)
        if not isinstance(found, list):
            raise QueryError(f"{self.server.url} did not answer with a list of entities")
        return found


def _read(described: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, dict[tuple[str, int], int]]]:
    """The offset that each consumer group has read to, by partition."""
    for source in described:
        for summary in source.get("queryOffsetSummaries", ()):
            yield (
                summary["groupId"],
                {
                    (topic["kafkaTopic"], each["partition"]): each["consumerOffset"]
                    for topic in summary["topicSummaries"]
                    for each in topic["offsets"]
                },
            )
