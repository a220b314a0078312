"""The in-memory engine of a server, which processes queries in pieces and has running push queries."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import msgspec
from msgspec.structs import replace

from kestrel_sql.admin.view import EngineView
from kestrel_sql.dataflow.log_entries import FATAL
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import QueryError
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.execution import Execution
from kestrel_sql.queries.persistent import Turn
from kestrel_sql.queries.transient import Row, TransientQuery

_MOMENT_S = 0.05
"""The interval (s) at which a waiting statement checks its condition."""


class PushQuery(msgspec.Struct):
    """A running push query; `position` is the arrival number that it reads next."""

    planned: TransientQuery
    topics: list[str]
    execution: Execution
    position: int
    turn: Turn = msgspec.field(default_factory=Turn)

    def close(self) -> None:
        """Close the query."""
        self.execution.close()


@dataclass(slots=True)
class ServedEngine(MemoryEngine):
    """Executes statements with the settings of each request.

    One thread calls `scoped`, `define`, `control`, `advance` and `advance_push`. Others may call `plan`, `answer`,
    `take_log` and what `queries` says of them at the same time.
    """

    @contextmanager
    def scoped(self, config: Config, variables: dict[str, str]) -> Iterator[None]:
        """Give the session the settings and variables of a request; SET and DEFINE last until the end of the block."""
        session = self.session
        before = session.config, session.variables
        session.config, session.variables = config, variables
        try:
            yield
        finally:
            session.config, session.variables = before

    def view(self) -> EngineView:
        """Return the view of the engine for statements that only read; any thread may wait on it."""
        return replace(self._view(), wait=partial(time.sleep, _MOMENT_S))

    def advance(self, query_id: str) -> None:
        """Let a persistent query process some of its new records.

        Raises:
            Exception: the error of its carrier.
        """
        running = self.queries.find(query_id)
        if running is not None and self.queries.read_on(running):
            self.queries.take_turn(running)

    def fail(self, query_id: str, reason: str) -> None:
        """Stop a persistent query with an error."""
        if (running := self.queries.find(query_id)) is not None:
            running.fail(reason)

    def push(self, planned: TransientQuery, config: Config, since: int) -> PushQuery:
        """Start a push query that reads from the arrival number `since`."""
        unlimited = replace(planned, limit=None)
        topics = self.queries.topics_of(planned.plan)
        return PushQuery(unlimited, topics, self._open(self.run_of(planned, config)), since)

    def advance_push(self, push: PushQuery, until: int) -> Sequence[Row]:
        """Let a push query process records below an arrival number, a few at once, and return its rows.

        Raises:
            QueryError: the query failed.
        """
        until, begun = min(until, self.broker.arrivals, push.position + push.turn.size), time.monotonic()
        read = self.queries.read(push.topics, push.position, until)
        records = [record for record in read if push.planned.admits(record)]
        count, push.position = until - push.position, until
        output = push.execution.advance(records) if records else Output()
        push.turn.took(count, time.monotonic() - begun)
        self.log += output.log
        fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
        if fatal is not None:
            raise QueryError(fatal.text)
        return push.planned.rows(output.records, push.execution.window)
