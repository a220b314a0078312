"""An engine over topics in memory as a `Backend`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.view import EngineView
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.queries.transient import TransientQuery
from kestrel_sql.server.commands import terminated_sinks
from kestrel_sql.server.memory.printing import printed_lines
from kestrel_sql.server.memory.push_queries import Pushes
from kestrel_sql.server.memory.query_turns import Turns
from kestrel_sql.server.properties import altered_system
from kestrel_sql.server.service import CommandStatus
from kestrel_sql.server.serving.backend import Done, Written
from kestrel_sql.server.serving.error_log import ErrorLog
from kestrel_sql.session.insert_values import Constants
from kestrel_sql.session.session import Executed, Session
from kestrel_sql.sql.nodes.admin import ControlQuery, PrintTopic
from kestrel_sql.sql.nodes.statements import AlterSystem, Query
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.records import Record


class MemoryBackend:
    """Serves a `ServedEngine`: persistent and push queries take turns in the engine's thread."""

    idle_s = None

    def __init__(self, engine: ServedEngine, queue_rows: int, wake: Callable[[], None]) -> None:
        """Start nothing; `wake` tells the engine's thread that there is work."""
        self._engine = engine
        self._wake = wake
        self._base = self.config = engine.session.config
        most = engine.session.config.integer("ksql.max.push.queries") or 100
        self.pushes = Pushes(engine, most, queue_rows, wake)
        self._turns = Turns(engine, self.pushes)
        self.cluster_id = "kestrel"
        self.sequence = -1
        self.is_terminated = False
        self.statuses: dict[str, CommandStatus] = {}

    @property
    def session(self) -> Session:
        """The catalog, queries and settings."""
        return self._engine.session

    @property
    def paused(self) -> set[str]:
        """The ids of the paused queries."""
        return self._engine.paused

    @property
    def errors(self) -> ErrorLog:
        """The processing log."""
        return self._turns.errors

    @property
    def done(self) -> Sequence[str]:
        """Nothing: topics in memory are gone with the server."""
        return ()

    def note_done(self, effect: str) -> None:
        """Do nothing."""

    def start(self) -> None:
        """Start Spark."""
        self._engine.start()
        self._turns.begin()

    def stop(self) -> None:
        """Start no piece of work any more."""
        self._turns.stop()

    def close(self) -> None:
        """Remove what is on disk."""
        self._engine.close()

    def step(self) -> bool:
        """Do a piece of work for the query whose turn it is; whether there was any."""
        return self._turns.step()

    def now(self) -> int:
        """The time in ms."""
        return self._engine.now()

    def constants(self) -> Constants:
        """Return what evaluates constant expressions."""
        return self._engine.constants()

    def view(self) -> EngineView:
        """What statements look at that ask about the engine."""
        return replace(self._engine.view(), base=self._base)

    def plan(self, query: Query, config: Config, query_id: str) -> TransientQuery:
        """Plan a push or pull query.

        Raises:
            StatementError: it is refused.
        """
        return self._engine.plan(query, config, query_id)

    def pull(self, planned: TransientQuery, config: Config) -> Answer:
        """Answer a pull query from the last batch.

        Raises:
            EngineError: the query fails.
        """
        return self._engine.pull(planned, config)

    def look_up(self, planned: TransientQuery) -> None:
        """No query: each reads the state of the last batch."""

    def print_lines(self, statement: PrintTopic) -> AsyncIterator[Sequence[str]]:
        """Give the lines of PRINT."""
        return printed_lines(statement, self._engine.view())

    def command(
        self, parsed: ParsedStatement, planned: Executed | None, config: Config, variables: dict[str, str]
    ) -> Done:
        """Carry out a statement that changes the engine.

        Raises:
            StatementError: it is refused; nothing has changed.
        """
        done = None
        if isinstance(parsed.statement, ControlQuery):
            self._engine.control(parsed.statement)
        elif isinstance(parsed.statement, AlterSystem):
            self.config = altered_system(self.config, parsed.statement)
        elif planned is not None:
            with self._engine.scoped(config, variables):
                done = self._engine.define(planned)
        self.sequence += 1
        return Done(executed=done, sequence=self.sequence)

    def produce(self, records: Sequence[Record]) -> Future[Written]:
        """Put records into their topic, and tell the engine's thread."""
        for record in records:
            self._engine.broker.produce(record)
        self._wake()
        written: Future[Written] = Future()
        written.set_result(Written(len(records)))
        return written

    def terminate(self, topics: Sequence[str]) -> int:
        """End all queries, and delete the sink topics that match a pattern."""
        session = self._engine.session
        sinks = terminated_sinks(session.catalog.sources.values(), topics, session.config)
        session.queries.clear()
        self._engine.flush()
        for sink in sinks:
            self._engine.broker.delete(sink.topic)
            session.delete_schemas(sink)
        self.is_terminated = True
        self.sequence += 1
        return self.sequence

    def lags(self) -> Mapping[str, Mapping[str, int]]:
        """The records that every query has still to process, by topic."""
        return self._engine.lags()

    def batches(self) -> Mapping[str, tuple[int, int]]:
        """None: a query takes records one piece at a time, and its state is not counted."""
        return {}

    def is_settled(self, since: float) -> bool:
        """Whether all queries have processed what is in their topics, apart from those that are paused or failed."""
        return not any(
            lag and not error and name not in self.paused for name, (_, _, lag, error) in self.progress().items()
        )

    def progress(self) -> Mapping[str, tuple[int, int, int, str]]:
        """Rows in, rows out, lag in records and error of every query."""
        return self._engine.progress()
