"""The push queries over topics in memory: what the engine's thread does for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kestrel_sql.errors import EngineError
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served_engine import PushQuery, ServedEngine
from kestrel_sql.queries.transient import Row, TransientQuery
from kestrel_sql.server.errors import SERVER_ERROR, ApiError, internal_error
from kestrel_sql.server.secrets import told
from kestrel_sql.server.serving.push_clients import PushClients, SharedQuery, Subscriber, from_beginning, shared_key
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.statements import Query

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class MemoryPush(SharedQuery):
    """A push query that reads from the arrival number `since` on; `push` is None until it has started."""

    since: int
    push: PushQuery | None = None
    catching_up: bool = False
    """Whether it reads records from before its client came, who then sets the pace."""

    def put(self, rows: Sequence[Row], start: int) -> int:
        """Give rows of records from `start` on to the clients that want them, and tell how many were dropped."""
        return sum(each.put(rows) for each in [*self.subscribers] if each.begin <= start)

    def must_wait(self, bound: int) -> bool:
        """Whether the client that sets the pace has enough to do."""
        return self.catching_up and any(subscriber.waiting * 2 > bound for subscriber in self.subscribers)


class Pushes(PushClients):
    """The push queries that run; `work` belongs to the engine's thread."""

    def __init__(self, engine: ServedEngine, queue_rows: int, wake: Callable[[], None]) -> None:
        """Allow `queue_rows` rows to wait for each client; `wake` tells the engine's thread of a new one."""
        super().__init__(engine.session, queue_rows)
        self._engine = engine
        self._wake = wake
        self._left: list[MemoryPush] = []

    def subscribe(self, subscriber: Subscriber, planned: TransientQuery, config: Config, statement: Query) -> None:
        """Let a client have the rows of the records that arrive from now on, or of all.

        Raises:
            ApiError: there are too many.
        """
        arrivals = self._engine.broker.arrivals
        since = 0 if from_beginning(config) else arrivals
        behind = since < arrivals
        key = shared_key(planned, config, statement, from_now=not behind)

        def make() -> MemoryPush:
            text = format_statement(statement)
            return MemoryPush(key=key, planned=planned, config=config, text=text, since=since, catching_up=behind)

        self.add(subscriber, key, make, since)
        self._wake()

    def emptied(self, shared: SharedQuery) -> None:
        """Let the engine's thread close a query."""
        if isinstance(shared, MemoryPush):
            self._left.append(shared)

    def work(self) -> list[Callable[[], None]]:
        """What the engine's thread can do now, one call a query."""
        with self._lock:
            left, self._left = self._left, []
            shared = [each for each in self._shared.values() if isinstance(each, MemoryPush)]
        for each in left:
            if each.push is not None:
                each.push.close()
        return [
            lambda one=one: self._advance(one)  # type: ignore[misc]
            for one in shared
            if self._has_input(one) and not one.must_wait(self._queue_rows)
        ]

    def _has_input(self, shared: MemoryPush) -> bool:
        push, engine = shared.push, self._engine
        topics = engine.queries.topics_of(shared.planned.plan) if push is None else push.topics
        position = shared.since if push is None else push.position
        return not shared.failed and engine.broker.waiting(topics, position) > 0

    def _advance(self, shared: MemoryPush) -> None:
        try:
            if shared.push is None:
                shared.push = self._engine.push(shared.planned, shared.config, shared.since)
            start = shared.push.position
            # A client that came later gets no row of a record that came before it.
            later = (each.begin for each in [*shared.subscribers] if each.begin > start)
            rows = self._engine.advance_push(shared.push, min(later, default=self._engine.broker.arrivals))
        except EngineError as error:
            shared.fail(ApiError(SERVER_ERROR, told(error)))
        except Exception as error:  # noqa: BLE001 - one query's failure must not end the thread
            _log.exception("a push query failed")
            shared.fail(internal_error(error))
        else:
            shared.catching_up = shared.catching_up and shared.push.position < self._engine.broker.arrivals
            self.rows += len(rows) * len(shared.subscribers)
            self.dropped += shared.put(rows, start)
