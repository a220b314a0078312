"""What the HTTP side and the service of an engine tell each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import msgspec

from kestrel_sql.queries.metrics import QueryCounts
from kestrel_sql.queries.transient import QueryKind, Row
from kestrel_sql.server.errors import ApiError
from kestrel_sql.types.schema import Column


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Statements or a query, as a client sends them; `sequence` is the command to wait for, -1 for none."""

    text: str
    properties: Mapping[str, object] = {}
    variables: Mapping[str, str] = {}
    sequence: int = -1


class State(Enum):
    """What a server can do; the values are those of `/info`."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    ERROR = "ERROR"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"


class CommandStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far a command is; `query_id` names the query that it started."""

    status: str
    message: str
    query_id: str | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object of `/status`."""
        return {"status": self.status, "message": self.message, "queryId": self.query_id}


class RowStream(Protocol):
    """The rows of one query for one client: batches until the query ends, which may be never."""

    @property
    def query_id(self) -> str:
        """The id, such as `transient_ORDERS_3`."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of each row."""

    @property
    def kind(self) -> QueryKind:
        """Whether rows are pushed or were pulled."""

    @property
    def limited(self) -> bool:
        """Whether LIMIT ended the query; known at the end."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What the answer says about the state that it was taken from, as HTTP headers."""

    def __aiter__(self) -> AsyncIterator[Sequence[Row]]:
        """Give batches; raises ApiError when the query fails or the client was too slow."""

    def close(self) -> None:
        """Free everything; may be called twice."""


class PrintedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """What PRINT shows: the lines of one topic, batch by batch."""

    topic: str
    lines: AsyncIterator[Sequence[str]]


def is_record(line: str) -> bool:
    """Whether a line of PRINT is a record; the first ones name the formats."""
    return line.startswith("rowtime: ")


class Inserted(msgspec.Struct, frozen=True):
    """How many rows are durable, up to the first that is not; `error` says why that one is not."""

    count: int
    error: ApiError | None = None


class Handed(msgspec.Struct, frozen=True):
    """Rows on their way into a topic; `inserted` can be awaited once. After `refused`, no row may follow."""

    inserted: Awaitable[Inserted]
    refused: bool


class QueryFigures(QueryCounts, frozen=True, kw_only=True):
    """A persistent query at one moment.

    `lags` is the lag by topic. `line` is that of the statement in the text that brought it.
    """

    statement: str
    line: int | None
    sources: tuple[str, ...]
    sink: str | None
    lag: int
    lags: Mapping[str, int]
    error: str


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What `/metrics` and the page show of an engine."""

    queries: Sequence[QueryFigures]
    push_queries: int
    push_clients: int
    pull_queries: int
    rows_pushed: int
    rows_inserted: int
    dropped_clients: int
    bad_records: int
    """Of all queries, push queries included."""
    errors: Sequence[Mapping[str, Any]]
    """The latest entries of the processing log: `query`, `message`, `topic`, `partition`, `offset`."""
