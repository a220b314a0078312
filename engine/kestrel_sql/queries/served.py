"""A memory engine that a server drives piece by piece: one query at a time, and push queries that go on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import QueryError
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.transient import Row, TransientQuery
from kestrel_sql.spark.in_memory.resumable import ResumableQuery
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.stages.log_entries import FATAL
from kestrel_sql.sql.nodes.admin import ControlQuery
from kestrel_sql.sql.parse.parser import ParsedStatement

_MOMENT_S = 0.05
"""Seconds between two looks at what a statement waits for."""

_CHUNK = 10_000
"""Records that a push query reads at once."""


@dataclass(slots=True)
class PushQuery:
    """A push query on its way; `position` is the arrival number that it reads next."""

    planned: TransientQuery
    topics: list[str]
    pipeline: Pipeline
    execution: ResumableQuery
    position: int

    def close(self) -> None:
        """Remove the checkpoint."""
        self.execution.close()


@dataclass(slots=True)
class ServedEngine(MemoryEngine):
    """Executes statements under the settings of each request.

    One thread calls `scoped`, `define`, `control`, `advance` and `advance_push`. Others may call `plan`, `answer`, `lags`
    and `progress` at the same time, but only one of them `answer` for tables: they share a reader of the state.
    """

    def start(self) -> None:
        """Start Spark."""
        self._memory()

    @contextmanager
    def scoped(self, config: Config, variables: dict[str, str]) -> Iterator[None]:
        """Let the session have the settings and variables of a request; SET and DEFINE last until the end of the block."""
        session = self.session
        kept = session.config, session.variables
        session.config, session.variables = config, variables
        try:
            yield
        finally:
            session.config, session.variables = kept

    def view(self) -> EngineView:
        """What statements look at that ask about the engine; any thread may wait on it."""
        return replace(self._view(), wait=partial(time.sleep, _MOMENT_S))

    def control(self, statement: ControlQuery) -> None:
        """Terminate, pause or resume a query.

        Raises:
            StatementError: there is no such query.
        """
        self._control(statement)

    def insert(self, parsed: ParsedStatement) -> None:
        """Carry out INSERT VALUES.

        Raises:
            EngineError: a value that does not fit.
        """
        self._insert(parsed)

    def advance(self, query_id: str) -> None:
        """Let one persistent query process what has arrived.

        Raises:
            Exception: Spark's own, when the pipeline as a whole does not run.
        """
        running = self.queries.find(query_id)
        if running is not None and self.queries.read_on(running):
            self.queries.advance(running)

    def fail(self, query_id: str, reason: str) -> None:
        """Stop a persistent query for an error."""
        if (running := self.queries.find(query_id)) is not None:
            running.error = reason

    def pull(self, planned: TransientQuery, config: Config) -> Answer:
        """Answer a pull query from the last batch of its table's query, or from the records of its stream.

        Raises:
            EngineError: the query fails.
        """
        return self.answer(planned, config)

    def push(self, planned: TransientQuery, config: Config, since: int) -> PushQuery:
        """Start a push query that reads from an arrival number on."""
        unlimited = replace(planned, limit=None)
        pipeline = build_pipeline([self.run_of(planned, config)], self.session.functions)
        topics = self.queries.topics_of(planned.plan)
        return PushQuery(unlimited, topics, pipeline, self._memory().open(pipeline), since)

    def advance_push(self, push: PushQuery, until: int) -> Sequence[Row]:
        """Let a push query process what has arrived below an arrival number, some thousand records at most, and give its rows.

        Raises:
            QueryError: the query failed.
        """
        until = min(until, self.broker.arrivals, push.position + _CHUNK)
        records = self.queries.read(push.topics, push.position, until)
        push.position = until
        if not records:
            return ()
        output = push.execution.advance(records)
        self.log += output.log
        fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
        if fatal is not None:
            raise QueryError(fatal.text)
        return push.planned.rows(output.records, push.pipeline.group.ends[0].window)

    def has_input(self, push: PushQuery) -> bool:
        """Whether records wait for a push query."""
        return self.broker.waiting(push.topics, push.position) > 0
