"""What the HTTP side needs of an engine. `kestrel_sql.server.serving` implements it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from kestrel_sql.admin.answer import Entity
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.queries.transient import QueryKind, Row
from kestrel_sql.server.errors import ApiError
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.types.schema import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Statements or a query, as a client sends them; `sequence` is the command to wait for, -1 for none."""

    text: str
    properties: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    sequence: int = -1


class State(Enum):
    """What a server can do; the values are those of `/info`."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    ERROR = "ERROR"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandStatus:
    """How far a command is; `query_id` names the query that it started."""

    status: str
    message: str
    query_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of `/status`."""
        return {"status": self.status, "message": self.message, "queryId": self.query_id}


class RowStream(Protocol):
    """The rows of one query for one client: batches until the query ends, which may be never."""

    @property
    def query_id(self) -> str:
        """The id, such as `transient_ORDERS_3`."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of each row."""
        ...

    @property
    def kind(self) -> QueryKind:
        """Whether rows are pushed or were pulled."""
        ...

    @property
    def limited(self) -> bool:
        """Whether LIMIT ended the query; known at the end."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """What the answer says about the state that it was taken from, as HTTP headers."""
        ...

    def __aiter__(self) -> AsyncIterator[Sequence[Row]]:
        """Give batches; raises ApiError when the query fails or the client was too slow."""
        ...

    def close(self) -> None:
        """Free everything; may be called twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedTopic:
    """What PRINT shows: the lines of one topic, batch by batch."""

    topic: str
    lines: AsyncIterator[Sequence[str]]


def is_record(line: str) -> bool:
    """Whether a line of PRINT is a record; the first ones name the formats."""
    return line.startswith("rowtime: ")


@dataclass(frozen=True, slots=True)
class Inserted:
    """How many rows are durable, up to the first that is not; `error` says why that one is not."""

    count: int
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class Handed:
    """Rows on their way into a topic; `inserted` can be awaited once. After `refused`, no row may follow."""

    inserted: Awaitable[Inserted]
    refused: bool


class Inserter(Protocol):
    """Writes rows into one stream or table."""

    async def hand_over(self, lines: Sequence[bytes]) -> Handed:
        """Send the rows that lines of JSON are, values by column name, up to the first that does not fit."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigures:
    """A persistent query at one moment; rows, bad and late records since the server started.

    `lag` is in records, `lags` the same by topic. `line` is that of the statement in the text that brought it.
    """

    id: str
    state: str
    statement: str
    line: int | None
    sources: tuple[str, ...]
    sink: str | None
    rows_in: int
    rows_out: int
    lag: int
    lags: Mapping[str, int]
    bad_records: int
    late_records: int
    error: str
    batch: int | None = None
    """The last batch that it has completed since the server started."""
    state_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
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


class Service(Protocol):
    """An engine behind the HTTP API. All coroutines run on the event loop of the server and must not block it."""

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster."""
        ...

    @property
    def service_id(self) -> str:
        """The `ksql.service.id`."""
        ...

    @property
    def state(self) -> State:
        """What the engine can do now."""
        ...

    async def parse(
        self, request: Request, check: Callable[[Sequence[ParsedStatement]], None], most: int
    ) -> Sequence[ParsedStatement]:
        """Parse the text of a request with its variables, and check the statements beside the event loop.

        A text that has more than `most` statements is read no further than one beyond them.

        Raises:
            ApiError: the text is not SQL, or `check` refuses it.
        """
        ...

    def source(self, name: str) -> Source | None:
        """The stream or table of that name."""
        ...

    def sources(self) -> Sequence[Source]:
        """All streams and tables by name."""
        ...

    async def execute(self, request: Request, parsed: Sequence[ParsedStatement]) -> Sequence[Entity]:
        """Validate the statements of a request against a copy of the engine, then execute them one by one.

        Raises:
            ApiError: a statement is refused; none has run if the validation refused it.
        """
        ...

    async def query(self, request: Request, parsed: ParsedStatement) -> RowStream:
        """Start the one SELECT of a request.

        Raises:
            ApiError: it is refused, or there are too many queries.
        """
        ...

    async def print_topic(self, parsed: ParsedStatement, text: str) -> PrintedTopic:
        """Start the one PRINT of a request with this text.

        Raises:
            ApiError: there is no such topic.
        """
        ...

    async def inserter(self, target: str, properties: Mapping[str, object]) -> Inserter:
        """Open a stream or table for rows.

        Raises:
            ApiError: it is unknown or read-only.
        """
        ...

    def close_query(self, query_id: str) -> bool:
        """End a push query; whether there was one."""
        ...

    async def wait_for(self, sequence: int) -> None:
        """Wait until a command has been executed.

        Raises:
            ApiError: it was not in time.
        """
        ...

    def status(self, command_id: str) -> CommandStatus | None:
        """The status of a command, None if it is unknown."""
        ...

    def statuses(self) -> Mapping[str, CommandStatus]:
        """The statuses of all commands."""
        ...

    def check_property(self, name: str) -> None:
        """Check that the server does not prohibit a property.

        Raises:
            ApiError: it does.
        """
        ...

    async def terminate(self, topics: Sequence[str]) -> Entity:
        """Close all queries and delete the sink topics that match a pattern; the engine does nothing after that.

        Raises:
            ApiError: a pattern is no regular expression.
        """
        ...

    async def plan(self, query_id: str) -> Sequence[Mapping[str, Any]]:
        """The steps of a persistent query: `id`, `step`, `name`, `schema`, `texts` and the `inputs` by id.

        Raises:
            ApiError: there is no such query.
        """
        ...

    def figures(self) -> Figures:
        """Everything that is counted."""
        ...
