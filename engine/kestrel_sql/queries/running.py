"""The persistent queries of an engine in one process: what each has read and written, and how it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import CheckpointError
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.queries.interrupts import interrupts_wait
from kestrel_sql.queries.pull import keeps
from kestrel_sql.queries.pull_state import MaterialisedTable
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.spark.in_memory.runner import Output
from kestrel_sql.spark.pipeline.pipeline import QueryRun
from kestrel_sql.spark.stages.log_entries import FATAL
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.records import LogEntry, Record

_CHUNK = 10_000
"""Records that a query processes before its progress shows."""


class Execution(Protocol):
    """A query with its state."""

    def advance(self, records: Sequence[Record]) -> Output:
        """Process further records, and give what the query wrote of them."""
        ...

    def upgrade(self, run: QueryRun) -> None:
        """Go on with another plan from the same state.

        Raises:
            CheckpointError: it has other operators.
        """
        ...

    def table(self) -> MaterialisedTable | None:
        """The table that the state holds, None if it holds none."""
        ...

    def close(self) -> None:
        """Give back what reading the state holds."""
        ...


@dataclass(slots=True)
class RunningQuery:
    """A persistent query: the records that it read up to `position` and has still to process, and its execution once it had any."""

    query: PersistentQuery
    position: int
    pending: Sequence[Record] = ()
    execution: Execution | None = None
    rows_in: int = 0
    rows_out: int = 0
    error: str = ""

    def close(self) -> None:
        """Give back what its execution holds."""
        if self.execution is not None:
            self.execution.close()


@dataclass(slots=True)
class RunningQueries:
    """The persistent queries of a session over topics in memory; `open` starts one with no state.

    With `by_time` a query reads several topics merged by timestamp, as from a broker, otherwise in the order in which the records
    arrived.
    """

    session: Session
    broker: MemoryBroker
    open: Callable[[QueryRun], Execution]
    by_time: bool
    log: list[LogEntry]
    paused: set[str] = field(default_factory=set)
    _running: dict[str, RunningQuery] = field(default_factory=dict)

    def close(self) -> None:
        """Give back what the queries hold."""
        for running in self._running.values():
            running.close()

    def follow_session(self) -> None:
        """Take over the session's queries: new ones, replaced ones, dropped ones.

        Raises:
            CheckpointError: the state does not fit a replaced query; it is stopped, for it must not go on without one.
        """
        latest = self.session.config.get("auto.offset.reset") == "latest"
        for name in [name for name in self._running if name not in self.session.queries]:
            self._running.pop(name).close()
        for name, query in self.session.queries.items():
            running = self._running.get(name)
            if running is None:
                self._running[name] = RunningQuery(query, self.broker.arrivals if latest else 0)
            elif running.query is not query:
                self._replace(running, query)

    def terminate(self, name: str) -> None:
        """End a query of the session."""
        self.session.queries.pop(name)
        self._running.pop(name).close()
        self.paused.discard(name)

    def due(self) -> Iterator[RunningQuery]:
        """The queries that have records to process, in the order of their statements.

        One must have processed them before the next is asked for, which may read what it wrote.
        """
        self.follow_session()
        for running in list(self._running.values()):
            if self.read_on(running):
                yield running

    def find(self, query_id: str) -> RunningQuery | None:
        """Return a query by its id, None if the session does not have it."""
        return self._running.get(query_id)

    def read_on(self, running: RunningQuery) -> bool:
        """Read what has arrived for a query, and return whether it has records to process; a paused or failed one reads nothing."""
        if running.query.id in self.paused or running.error:
            return False
        # Records may arrive while this one reads.
        until = self.broker.arrivals
        running.pending = [*running.pending, *self.read(self.topics_of(running.query.plan), running.position, until)]
        running.position = until
        return bool(running.pending)

    def advance(self, running: RunningQuery) -> None:
        """Process what is pending; an interrupt comes between two pieces, so that none is lost or done twice."""
        if running.execution is None:
            with interrupts_wait():
                running.execution = self.open(self.run_of(running.query))
        while running.pending and not running.error:
            with interrupts_wait():
                self.take(running, running.execution.advance(running.pending[:_CHUNK]), _CHUNK)

    def take(self, running: RunningQuery, output: Output, count: int) -> None:
        """Write to the topics what a query made of the first `count` records that are pending."""
        processed, running.pending = running.pending[:count], running.pending[count:]
        running.rows_in += len(processed)
        running.rows_out += len(output.records)
        self.log += output.log
        for record in output.records:
            self.broker.produce(record)
        fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
        if fatal is not None:
            place = f"{fatal.topic}, partition {fatal.partition}, offset {fatal.offset}"
            running.error = f"{running.query.id}: {fatal.text} ({place})"

    def run_of(self, query: PersistentQuery) -> QueryRun:
        """How the pipeline is to run a query: its table can be asked, and CREATE OR REPLACE can give it another plan."""
        return QueryRun(
            plan=query.plan, settings=query.config, serde=self.session.serde(), queryable=True, replaceable=True
        )

    def keeper_of(self, table: Source) -> RunningQuery | None:
        """The query that materialises a table."""
        return next((running for running in self._running.values() if keeps(running.query.plan, table)), None)

    def read(self, topics: Sequence[str], since: int, until: int | None = None) -> list[Record]:
        """Return the records of topics in the order in which a query reads them: arrivals from `since` on, below `until`."""
        return self.broker.merged(topics, since, until) if self.by_time else self.broker.arrived(topics, since, until)

    def topics_of(self, plan: QueryPlan) -> list[str]:
        """The topics that a query reads."""
        sources = self.session.catalog.sources
        return [sources[name].topic for name in plan.sources if name in sources]

    def must_interleave(self) -> bool:
        """Whether a query reads a derived topic beside another, so that the order of single records shows."""
        plans = [query.plan for query in self.session.queries.values()]
        derived = {plan.sink for plan in plans}
        return any(len(plan.sources) > 1 and derived & set(plan.sources) for plan in plans)

    def progress(self) -> Mapping[str, tuple[int, int, int, str]]:
        """Rows in, rows out, lag in records and error of every query."""
        lags = self.lags()
        return {
            name: (running.rows_in, running.rows_out, sum(lags[name].values()), running.error)
            for name, running in list(self._running.items())
            if name in lags
        }

    def lags(self) -> Mapping[str, Mapping[str, int]]:
        """The records that every query has still to process, by topic; may be asked while the engine works."""
        return {name: self._lag(running) for name, running in list(self._running.items())}

    def _lag(self, running: RunningQuery) -> dict[str, int]:
        pending = Counter(record.topic for record in running.pending)
        return {
            topic: pending[topic] + self.broker.waiting([topic], running.position)
            for topic in self.topics_of(running.query.plan)
        }

    def _replace(self, running: RunningQuery, query: PersistentQuery) -> None:
        running.query = query
        if running.execution is None:
            return
        try:
            running.execution.upgrade(self.run_of(query))
        except CheckpointError as error:
            running.error = error.message
            raise
