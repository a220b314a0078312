"""The clients of push queries: clients that ask the same may share a query."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from kestrel_sql.planner.config import Config
from kestrel_sql.queries.transient import QueryKind, Row, TransientQuery
from kestrel_sql.server.errors import BAD_STATEMENT, SERVER_ERROR, TOO_MANY_PUSH_QUERIES, ApiError
from kestrel_sql.session.session import Session
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.types.schema import Column


class Subscriber:
    """One client of a push query (`RowStream`): the engine puts rows, the event loop takes them.

    A client that lets more than `bound` rows wait is dropped: it gets an error, and its rows are forgotten.
    """

    def __init__(
        self,
        query_id: str,
        columns: tuple[Column, ...],
        limit: int | None,
        bound: int,
        left: Callable[[Subscriber], None],
    ) -> None:
        """Make a subscriber for the event loop that runs; `left` is called once, when it is closed."""
        self.query_id = query_id
        self.columns = columns
        self.limited = False
        self.begin: Any = None
        """The first record that it gets rows of, in the terms of the backend."""
        self._limit = limit
        self._bound = bound
        self._left = left
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._lock = threading.Lock()
        self._batches: deque[Sequence[Row]] = deque()
        self._waiting = 0
        self._ended = False
        self._error: ApiError | None = None
        self._closed = False

    @property
    def kind(self) -> QueryKind:
        """Rows are pushed."""
        return QueryKind.PUSH

    @property
    def headers(self) -> Mapping[str, str]:
        """None: rows come as they are made."""
        return MappingProxyType({})

    @property
    def is_closed(self) -> bool:
        """Whether the client has left."""
        return self._closed

    @property
    def waiting(self) -> int:
        """How many rows the client has still to take."""
        return self._waiting

    def put(self, rows: Sequence[Row]) -> bool:
        """Add rows, up to the LIMIT; whether the client was dropped for them."""
        with self._lock:
            if self._ended or self._closed or not rows:
                return False
            if self._limit is not None and len(rows) >= self._limit:
                rows, self.limited, self._ended = rows[: self._limit], True, True
            if self._limit is not None:
                self._limit -= len(rows)
            dropped = self._waiting > 0 and self._waiting + len(rows) > self._bound
            if dropped:
                self._batches.clear()
                self._waiting, self._ended = 0, True
                self._error = ApiError(
                    SERVER_ERROR,
                    f"The client takes rows too slowly: more than {self._bound} rows wait for it. The query was ended.",
                )
            else:
                self._batches.append(rows)
                self._waiting += len(rows)
        self._notify()
        return dropped

    def end(self, error: ApiError | None = None) -> None:
        """End the stream after the rows that wait."""
        with self._lock:
            if not self._ended:
                self._ended, self._error = True, error
        self._notify()

    def close(self) -> None:
        """Free everything; the query ends with its last client."""
        with self._lock:
            if self._closed:
                return
            self._closed = self._ended = True
            self._batches.clear()
            self._waiting = 0
        self._notify()
        self._left(self)

    async def __aiter__(self) -> AsyncIterator[Sequence[Row]]:
        """Give batches of rows.

        Raises:
            ApiError: the query failed, or the client was too slow.
        """
        while True:
            self._news.clear()
            while (batch := self._take()) is not None:
                yield batch
            if self._ended and not self._batches:
                if self._error is not None:
                    raise self._error
                return
            await self._news.wait()

    def _take(self) -> Sequence[Row] | None:
        with self._lock:
            if not self._batches:
                return None
            batch = self._batches.popleft()
            self._waiting -= len(batch)
        return batch

    def _notify(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:
            # The event loop has ended, and the client with it.
            self._ended = True


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
    if from_now and all(step.shareable for step in planned.plan.physical_plan.steps()):
        return format_statement(replace(statement, limit=None)), tuple(sorted(config.items()))
    return planned.plan.query_id
