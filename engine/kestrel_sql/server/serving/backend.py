"""What a service needs of an engine, whose topics are in memory or on a broker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import EngineError
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.transient import TransientQuery
from kestrel_sql.server.service import CommandStatus
from kestrel_sql.server.serving.error_log import ErrorLog
from kestrel_sql.server.serving.lookups import LookUp
from kestrel_sql.server.serving.push_clients import PushClients
from kestrel_sql.session.session import Executed
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.records import Record


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was carried out: what the session did (None for PAUSE and the like), and its sequence number."""

    executed: Executed | None
    sequence: int


class Written(msgspec.Struct, frozen=True):
    """How many records of a batch are durable, up to the first that is not; `error` says why that one is not."""

    count: int
    error: EngineError | None = None


class Queries(Protocol):
    """The persistent queries of an engine; `paused` has the ids of those that are paused. Any thread may ask."""

    paused: set[str]

    def lags(self) -> Mapping[str, Mapping[str, int]]:
        """The records that every query has still to process, by topic."""

    def progress(self) -> Mapping[str, tuple[int, int, int, str]]:
        """Rows in, rows out, lag in records and error of every query."""

    def batches(self) -> Mapping[str, tuple[int, int]]:
        """The last batch of every query that has completed one since the start, and its rows of state."""

    def is_settled(self, since: float) -> bool:
        """Whether all queries have processed what was in their topics at a time (monotonic, s)."""


class Backend(ABC):
    """An engine. One thread calls `start`, `command`, `step` and `terminate`; any thread may call the others."""

    idle_s: float | None = None
    """How long (s) the engine's thread may sleep without being woken; None for as long as it likes."""

    cluster_id = "kestrel"
    """The id of the Kafka cluster."""

    sequence = -1
    """The number of the last command that was carried out, -1 for none."""

    is_terminated = False
    """Whether the service was ended for good."""

    done: Sequence[str] = ()
    """What earlier starts have done, and this one must not do again."""

    def __init__(self, asking: MemoryEngine, errors: ErrorLog, queries: Queries, pushes: PushClients) -> None:
        """Begin with the settings of the session.

        `asking` plans and answers queries, `errors` is the processing log.
        """
        self.asking, self.errors, self.queries, self.pushes = asking, errors, queries, pushes
        self.session = asking.session
        self.base = self.config = asking.session.config
        """The settings of the start, and those under which a request starts, as ALTER SYSTEM changed them."""
        self.statuses: dict[str, CommandStatus] = {}
        """What became of each command, by its id; also of those that a restart carried out again."""

    def note_done(self, effect: str) -> None:
        """Keep in mind, also for later starts on a broker, that something is done."""
        self.done = (*self.done, effect)

    def look_up(self, planned: TransientQuery) -> LookUp | None:
        """Return what answers a planned pull query for any constant; None if only `pull` answers it."""
        return None

    def pull(self, planned: TransientQuery, config: Config) -> Answer:
        """Answer a pull query from the last batch of its table's query, or from what its stream holds now.

        Raises:
            EngineError: the query fails.
        """
        try:
            return self.asking.answer(planned, config)
        finally:
            self.errors.note(self.asking.take_log())

    @abstractmethod
    def start(self) -> None:
        """Start what queries need, and the queries."""

    @abstractmethod
    def stop(self) -> None:
        """Start no piece of work any more."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""

    @abstractmethod
    def step(self) -> bool:
        """Do a piece of work that is due; whether there may be more."""

    @abstractmethod
    def view(self) -> EngineView:
        """What statements look at that ask about the engine."""

    @abstractmethod
    def print_lines(self, statement: PrintTopic) -> AsyncIterator[Sequence[str]]:
        """Give the lines of PRINT."""

    @abstractmethod
    def command(
        self, parsed: ParsedStatement, planned: Executed | None, config: Config, variables: dict[str, str]
    ) -> Done:
        """Carry out a statement that changes the engine; `planned` is None for one that has no plan.

        Raises:
            EngineError: it is refused; nothing has changed.
        """

    @abstractmethod
    def produce(self, records: Sequence[Record]) -> Future[Written]:
        """Put records into their topic, up to the first that is refused; the result comes when they are durable."""

    @abstractmethod
    def terminate(self, topics: Sequence[str]) -> int:
        """End the service: all queries, and sink topics that match a pattern; returns the number of the command.

        Raises:
            EngineError: the command is not durable; nothing has changed.
        """
