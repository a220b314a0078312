"""The clients of push queries: clients that ask the same may share a query."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kestrel_sql.planner.config import Config
from kestrel_sql.queries.transient import TransientQuery
from kestrel_sql.server.errors import BAD_STATEMENT, SERVER_ERROR, TOO_MANY_PUSH_QUERIES, ApiError
from kestrel_sql.server.serving.subscribers import Subscriber
from kestrel_sql.session.session import Session
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.statements import Query

_STATELESS = frozenset(
    {"streamSinkV1", "streamSelectV1", "streamFilterV1", "streamFlatMapV1", "streamSourceV1", "windowedStreamSourceV1"}
)
"""Steps whose rows do not depend on when their query began."""


@dataclass(slots=True, kw_only=True)
class SharedQuery:
    """A push query and its clients."""

    key: object
    planned: TransientQuery
    config: Config
    text: str
    subscribers: list[Subscriber] = field(default_factory=list)
    failed: bool = False

    def fail(self, error: ApiError) -> None:
        """End the streams of all clients for an error."""
        self.failed = True
        for subscriber in [*self.subscribers]:
            subscriber.end(error)


class PushClients(ABC):
    """The clients of one server. They come and go on any thread; subclasses run the queries."""

    def __init__(self, session: Session, queue_rows: int) -> None:
        """Allow as many clients as the session says, and `queue_rows` rows to wait for each."""
        self._most = session.config.integer("ksql.max.push.queries") or 100
        self._queue_rows = queue_rows
        self._lock = threading.Lock()
        self._shared: dict[object, SharedQuery] = {}
        self._clients: dict[str, tuple[SharedQuery, Subscriber]] = {}
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

    def client(self, planned: TransientQuery) -> Subscriber:
        """Make a client for the event loop that runs; it gets rows once it is subscribed."""
        subscriber = Subscriber(planned.plan.query_id, planned.columns, planned.limit, self._queue_rows, self._leave)
        if planned.limit == 0:
            subscriber.limited = True
            subscriber.end()
        return subscriber

    def check_room(self, statement: Query) -> None:
        """Check, before a query is planned, that a client may come.

        Raises:
            ApiError: there are too many.
        """
        if len(self._clients) >= self._most:
            raise ApiError(
                BAD_STATEMENT,
                "Not executing statement as it would cause the number of active push queries to exceed the"
                f" configured limit of {self._most}. Terminate existing push queries, or raise ksql.max.push.queries.",
                statement=format_statement(statement),
            )

    @abstractmethod
    def subscribe(self, subscriber: Subscriber, planned: TransientQuery, config: Config, statement: Query) -> None:
        """Let a client have the rows of a query from now on, or from the beginning if `auto.offset.reset` says so.

        Raises:
            ApiError: there are too many.
            EngineError: the query cannot be started.
        """

    @abstractmethod
    def emptied(self, shared: SharedQuery) -> None:
        """Stop a query that has lost its last client; called under the lock, and must not wait."""

    def add(self, subscriber: Subscriber, key: object, make: Callable[[], SharedQuery], begin: object) -> SharedQuery:
        """Add a client to the query of that key, or to a new one; `begin` is the first record that it gets rows of.

        Raises:
            ApiError: others have come since `check_room`.
        """
        with self._lock:
            if len(self._clients) >= self._most:
                raise ApiError(TOO_MANY_PUSH_QUERIES, f"The limit of {self._most} push queries is reached")
            shared = self._shared.get(key)
            if shared is None:
                shared = self._shared[key] = make()
            subscriber.begin = begin
            shared.subscribers.append(subscriber)
            self._clients[subscriber.query_id] = shared, subscriber
        if subscriber.is_closed:
            self._leave(subscriber)
        return shared

    def find(self, query_id: str) -> str | None:
        """The id of a client's query, whatever the case of its letters; None if there is none."""
        return next((known for known in [*self._clients] if known.upper() == query_id.upper()), None)

    def running(self) -> Sequence[dict[str, object]]:
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
                self.emptied(shared)


def from_beginning(config: Config) -> bool:
    """Whether a push query reads what its topics hold already."""
    return config["auto.offset.reset"].lower() == "earliest"


def shared_key(planned: TransientQuery, config: Config, statement: Query, *, from_now: bool) -> object:
    """What clients have in common that share a query; one from the beginning, or with state, is for one client."""
    if from_now and all(step.tag in _STATELESS for step in planned.plan.physical_plan.steps()):
        return format_statement(replace(statement, limit=None)), tuple(sorted(config.items()))
    return planned.plan.query_id
