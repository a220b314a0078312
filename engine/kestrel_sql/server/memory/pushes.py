"""All push queries of a server: subscribing, sharing, and what the engine's thread does for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from kestrel_sql.errors import EngineError
from kestrel_sql.plan.step import Step
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served import ServedEngine
from kestrel_sql.queries.transient import TransientQuery
from kestrel_sql.server.errors import BAD_STATEMENT, SERVER_ERROR, ApiError, internal_error
from kestrel_sql.server.memory.push import SharedQuery, Subscriber
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.statements import Query

_log = logging.getLogger(__name__)

_STATELESS = frozenset(
    {"streamSinkV1", "streamSelectV1", "streamFilterV1", "streamFlatMapV1", "streamSourceV1", "windowedStreamSourceV1"}
)
"""Steps whose rows do not depend on when their query began."""


class Pushes:
    """The push queries that run. Clients come and go on the event loop; `work` and `start` belong to the engine's thread."""

    def __init__(self, engine: ServedEngine, most: int, queue_rows: int) -> None:
        """Allow `most` clients, and `queue_rows` rows to wait for each."""
        self._engine = engine
        self._most = most
        self._queue_rows = queue_rows
        self._lock = threading.Lock()
        self._shared: dict[object, SharedQuery] = {}
        self._clients: dict[str, tuple[SharedQuery, Subscriber]] = {}
        self._left: list[SharedQuery] = []
        self.rows = 0
        self.dropped = 0

    @property
    def queries(self) -> int:
        """How many queries run."""
        return len(self._shared)

    @property
    def clients(self) -> int:
        """How many clients they have."""
        return len(self._clients)

    def subscribe(self, planned: TransientQuery, config: Config, since: int, statement: Query) -> Subscriber:
        """Add a client for the rows of the records that arrive from `since` on.

        Raises:
            ApiError: there are too many.
        """
        query_id = planned.plan.query_id
        subscriber = Subscriber(query_id, planned.columns, planned.limit, self._queue_rows, self._leave)
        subscriber.since = since
        if planned.limit == 0:
            subscriber.limited = True
            subscriber.end()
        with self._lock:
            if len(self._clients) >= self._most:
                raise ApiError(
                    BAD_STATEMENT,
                    f"Not executing statement as it would cause the number of active push queries to exceed the "
                    f"configured limit of {self._most}. Terminate existing push queries, or raise ksql.max.push.queries.",
                    statement=format_statement(statement),
                )
            key = self._key(planned, config, since, statement)
            shared = self._shared.get(key)
            if shared is None:
                shared = self._shared[key] = SharedQuery(key, planned, config, since, format_statement(statement))
                shared.catching_up = since < self._engine.broker.arrivals
            shared.subscribers.append(subscriber)
            self._clients[query_id] = shared, subscriber
        return subscriber

    def _key(self, planned: TransientQuery, config: Config, since: int, statement: Query) -> object:
        """What clients must have in common to share a query; those from the beginning have a query each."""
        if since < self._engine.broker.arrivals or not _is_stateless(planned.plan.physical_plan):
            return planned.plan.query_id
        return format_statement(replace(statement, limit=None)), tuple(sorted(config.items()))

    def find(self, query_id: str) -> str | None:
        """The id of a client's query, whatever the case of its letters; None if there is none."""
        return next((known for known in [*self._clients] if known.upper() == query_id.upper()), None)

    def running(self) -> list[dict[str, object]]:
        """All clients' queries as `RunningQuery` objects."""
        return [
            {
                "queryString": shared.text,
                "sinks": [],
                "sinkKafkaTopics": [],
                "id": query_id,
                "statusCount": {"RUNNING": 1},
                "queryType": "PUSH",
                "state": "RUNNING",
            }
            for query_id, (shared, _) in [*self._clients.items()]
        ]

    def end(self, query_id: str) -> bool:
        """End the stream of a client; whether there was one."""
        found = self._clients.get(query_id)
        if found is None:
            return False
        found[1].end()
        return True

    def end_all(self) -> None:
        """End all streams."""
        for query_id in [*self._clients]:
            self.end(query_id)

    def close(self) -> None:
        """End all streams because the server ends."""
        for _, subscriber in [*self._clients.values()]:
            subscriber.end(ApiError(SERVER_ERROR, "The server is shutting down."))

    def _leave(self, subscriber: Subscriber) -> None:
        with self._lock:
            found = self._clients.pop(subscriber.query_id, None)
            if found is None:
                return
            shared = found[0]
            shared.subscribers.remove(subscriber)
            if not shared.subscribers and self._shared.pop(shared.key, None) is not None:
                self._left.append(shared)

    def work(self) -> list[Callable[[], None]]:
        """What the engine's thread can do now, one call a query."""
        with self._lock:
            left, self._left = self._left, []
            shared = [*self._shared.values()]
        for each in left:
            if each.push is not None:
                each.push.close()
        return [
            lambda one=one: self._advance(one)  # type: ignore[misc]
            for one in shared
            if self._has_input(one) and not one.must_wait(self._queue_rows)
        ]

    def _has_input(self, shared: SharedQuery) -> bool:
        position = shared.since if shared.push is None else shared.push.position
        return not shared.failed and self._engine.broker.waiting(self._topics(shared), position) > 0

    def _topics(self, shared: SharedQuery) -> list[str]:
        if shared.push is not None:
            return shared.push.topics
        sources = self._engine.session.catalog.sources
        return [sources[name].topic for name in shared.planned.plan.sources if name in sources]

    def _advance(self, shared: SharedQuery) -> None:
        try:
            if shared.push is None:
                shared.push = self._engine.push(shared.planned, shared.config, shared.since)
            start = shared.push.position
            # A client that came later gets no row of a record that came before it.
            until = min(
                (s.since for s in [*shared.subscribers] if s.since > start), default=self._engine.broker.arrivals
            )
            rows = self._engine.advance_push(shared.push, until)
        except EngineError as error:
            self._fail(shared, ApiError(SERVER_ERROR, error.render()))
        except Exception as error:  # noqa: BLE001 - one query's failure must not end the thread
            _log.exception("a push query failed")
            self._fail(shared, internal_error(error))
        else:
            shared.catching_up = shared.catching_up and shared.push.position < self._engine.broker.arrivals
            self.rows += len(rows) * len(shared.subscribers)
            self.dropped += shared.put(rows, start)

    def _fail(self, shared: SharedQuery, error: ApiError) -> None:
        shared.failed = True
        shared.end(error)


def _is_stateless(step: Step) -> bool:
    return step.tag in _STATELESS and all(map(_is_stateless, step.upstream))
