"""The client of a push query: a bounded queue of rows."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kestrel_sql.queries.transient import QueryKind, Row
from kestrel_sql.server.errors import SERVER_ERROR, ApiError
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
        self.rows_sent = 0
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
        self.rows_sent += len(batch)
        return batch

    def _notify(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:
            # The event loop has ended, and the client with it.
            self._ended = True
