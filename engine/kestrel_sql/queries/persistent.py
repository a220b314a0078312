"""The persistent queries of an engine in one process: their input, output and execution."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from kestrel_sql.admin.view import Failure
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.dataflow.log_entries import FATAL
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import CheckpointError, StatementError
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.queries.execution import Execution
from kestrel_sql.queries.interrupts import delayed_interrupts
from kestrel_sql.queries.processing_log import LogStream
from kestrel_sql.queries.pull import materialises
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.records import LogEntry, Record

_CHUNK = 10_000
"""The most records that a query processes before its progress is updated."""

_TURN_S = 0.1
"""How long (s) a query should work while others wait."""


class Turn(msgspec.Struct):
    """How many records a query takes when it is its turn; it learns that from how long the last ones took."""

    size: int = 1

    def took(self, count: int, seconds: float) -> None:
        """Note how long `count` records took."""
        self.size = max(1, min(_CHUNK, 2 * self.size, int(count * _TURN_S / max(seconds, _TURN_S / _CHUNK))))


class MemoryQuery(msgspec.Struct):
    """A persistent query.

    It has read up to `position`; `pending` are records to process, and `waiting` their numbers by topic; it has an
    execution after its first input.
    """

    query: PersistentQuery
    position: int
    pending: list[Record] = []
    waiting: Counter[str] = msgspec.field(default_factory=Counter)
    turn: Turn = msgspec.field(default_factory=Turn)
    execution: Execution | None = None
    rows_in: int = 0
    rows_out: int = 0
    batches: int = 0
    failure: Failure | None = None

    @property
    def error(self) -> str:
        """What has stopped the query; empty while nothing has."""
        return "" if self.failure is None else self.failure.message

    def fail(self, message: str, *, is_of_user: bool = False) -> None:
        """Stop the query."""
        self.failure = Failure(message=message, time=int(time.time() * 1000), is_of_user=is_of_user)

    def close(self) -> None:
        """Close the execution."""
        if self.execution is not None:
            self.execution.close()


class RunningQueries(msgspec.Struct):
    """The persistent queries of a session over topics in memory; `open` starts one without state.

    With `by_time` a query reads several topics merged by timestamp, as from a broker, otherwise in the order of
    arrival.
    """

    session: Session
    broker: MemoryBroker
    open: Callable[[QueryRun], Execution]
    by_time: bool
    log: list[LogEntry]
    log_stream: LogStream
    paused: set[str] = set()
    _running: dict[str, MemoryQuery] = {}

    def close(self) -> None:
        """Close all queries."""
        for running in self._running.values():
            running.close()

    def follow_session(self) -> None:
        """Update the queries to those of the session: new, replaced and dropped ones.

        Raises:
            CheckpointError: the state does not match a replaced query, which is stopped.
        """
        latest = self.session.config.get("auto.offset.reset") == "latest"
        for name in [name for name in self._running if name not in self.session.queries]:
            self._running.pop(name).close()
        for name, query in self.session.queries.items():
            running = self._running.get(name)
            if running is None:
                self._running[name] = MemoryQuery(query, self.broker.arrivals if latest else 0)
            elif running.query is not query:
                self._replace(running, query)

    def resume(self, name: str) -> None:
        """Let a query go on that is paused, or that the system stopped.

        Raises:
            StatementError: a record or its statement stopped it, which would stop it again.
        """
        self.paused.discard(name)
        running = self._running.get(name)
        if running is None or running.failure is None:
            return
        if running.failure.is_of_user:
            raise StatementError(
                f"{name} was not resumed, because it would fail again: {running.error}",
                hint="terminate and recreate it",
            )
        running.failure = None

    def terminate(self, name: str) -> None:
        """Terminate a query of the session."""
        self.session.queries.pop(name)
        self._running.pop(name).close()
        self.paused.discard(name)

    def due(self) -> Iterator[MemoryQuery]:
        """Return the queries that have records to process, in the order of their statements.

        A query must process its records before the next one is taken, which may read its output.
        """
        self.follow_session()
        for running in list(self._running.values()):
            if self.read_on(running):
                yield running

    def find(self, query_id: str) -> MemoryQuery | None:
        """Return a query by its id, None if the session does not have it."""
        return self._running.get(query_id)

    def read_on(self, running: MemoryQuery) -> bool:
        """Read new records for a query, and return whether it has records to process.

        A paused or failed query reads nothing.
        """
        if running.query.id in self.paused or running.error:
            return False
        # Records may arrive in the meantime.
        until = self.broker.arrivals
        read = self.read(self.topics_of(running.query.plan), running.position, until)
        running.pending += read
        running.waiting.update(record.topic for record in read)
        running.position = until
        return bool(running.pending)

    def advance(self, running: MemoryQuery) -> None:
        """Process pending records.

        An interrupt takes effect between two pieces, so that none is lost or processed twice.
        """
        while running.pending and not running.error:
            self._process(running, _CHUNK)

    def take_turn(self, running: MemoryQuery) -> None:
        """Process a few pending records, so that nobody who waits waits long."""
        count, begun = min(len(running.pending), running.turn.size), time.monotonic()
        self._process(running, count)
        running.turn.took(count, time.monotonic() - begun)

    def _process(self, running: MemoryQuery, count: int) -> None:
        with delayed_interrupts():
            if running.execution is None:
                running.execution = self.open(self.run_of(running.query))
            self.take(running, running.execution.advance(running.pending[:count]), count)

    def take(self, running: MemoryQuery, output: Output, count: int) -> None:
        """Write the output for the first `count` pending records to the topics."""
        processed = running.pending[:count]
        del running.pending[:count]
        running.waiting.subtract(record.topic for record in processed)
        running.batches += 1
        running.rows_in += len(processed)
        running.rows_out += len(output.records)
        self.log += output.log
        self.log_stream.write(output.log)
        for record in output.records:
            self.broker.produce(record)
        fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
        if fatal is not None:
            position = f"{fatal.topic}, partition {fatal.partition}, offset {fatal.offset}"
            running.fail(f"{running.query.id}: {fatal.text} ({position})", is_of_user=True)

    def run_of(self, query: PersistentQuery) -> QueryRun:
        """Return the run of a query, with a queryable table, and a plan that CREATE OR REPLACE may change."""
        return QueryRun(
            plan=query.plan, settings=query.config, serde=self.session.serde(), queryable=True, replaceable=True
        )

    def query_of(self, table: Source) -> MemoryQuery | None:
        """Return the query that materialises a table; None if there is none."""
        return next((running for running in self._running.values() if materialises(running.query.plan, table)), None)

    def read(self, topics: Sequence[str], since: int, until: int | None = None) -> list[Record]:
        """Return records of topics in a query's reading order, with arrivals from `since` to before `until`."""
        return self.broker.merged(topics, since, until) if self.by_time else self.broker.arrived(topics, since, until)

    def topics_of(self, plan: QueryPlan) -> list[str]:
        """Return the topics that a query reads."""
        sources = self.session.catalog.sources
        return [sources[name].topic for name in plan.sources if name in sources]

    def must_interleave(self) -> bool:
        """Return whether a query reads a further topic beside the output of another query.

        The result of such a query depends on the order of the records.
        """
        plans = [query.plan for query in self.session.queries.values()]
        derived = {plan.sink for plan in plans}
        return any(len(plan.sources) > 1 and derived & set(plan.sources) for plan in plans)

    def errors(self) -> Mapping[str, str]:
        """Return what has stopped each query that failed."""
        return {name: running.error for name, running in list(self._running.items()) if running.error}

    def failures(self) -> Mapping[str, Failure]:
        """Return what has stopped each query that failed, and when."""
        return {name: running.failure for name, running in list(self._running.items()) if running.failure is not None}

    def progress(self) -> Mapping[str, tuple[int, int, int, str]]:
        """Return rows in, rows out, lag in records and error of every query."""
        lags = self.lags()
        return {
            name: (running.rows_in, running.rows_out, sum(lags[name].values()), running.error)
            for name, running in list(self._running.items())
            if name in lags
        }

    def lags(self) -> Mapping[str, Mapping[str, int]]:
        """Return the number of records that every query has not processed yet, by topic.

        May be called while the engine works.
        """
        return {name: self._lag(running) for name, running in list(self._running.items())}

    def batches(self) -> Mapping[str, tuple[int, int]]:
        """The last batch of every query, which a query without Spark does not number: none."""
        return {}

    def is_settled(self, since: float) -> bool:
        """Whether all queries have processed what is in their topics, apart from those that are paused or failed."""
        return not any(
            lag and not error and name not in self.paused for name, (_, _, lag, error) in self.progress().items()
        )

    def _lag(self, running: MemoryQuery) -> dict[str, int]:
        return {
            topic: running.waiting[topic] + self.broker.waiting([topic], running.position)
            for topic in self.topics_of(running.query.plan)
        }

    def _replace(self, running: MemoryQuery, query: PersistentQuery) -> None:
        running.query = query
        if running.execution is None:
            return
        try:
            running.execution.upgrade(self.run_of(query))
        except CheckpointError as error:
            running.fail(error.message, is_of_user=True)
            raise
