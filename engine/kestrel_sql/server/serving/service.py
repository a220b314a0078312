"""An engine behind the HTTP API.

Three kinds of threads work beside the event loop: the engine's, which runs commands and, between them, one piece of one
query at a time; those that answer pull queries from the last batch while the engine works on the next; and a few that
answer statements which only ask.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from kestrel_sql.admin.answer import Entity
from kestrel_sql.admin.entities.queries import plan_steps
from kestrel_sql.admin.print_topic import printed_source
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import EngineError
from kestrel_sql.importer.command_backup import TERMINATE_CLUSTER
from kestrel_sql.planner.inserts import writable_source
from kestrel_sql.server.commands import TERMINATE_ID, terminated_sinks
from kestrel_sql.server.descriptors import check_descriptors
from kestrel_sql.server.errors import (
    BAD_REQUEST,
    BAD_STATEMENT,
    NOT_READY,
    SEQUENCE_TIMEOUT,
    TERMINATED,
    TERMINATING,
    ApiError,
    api_error,
)
from kestrel_sql.server.properties import check_allowed, with_properties
from kestrel_sql.server.secrets import told
from kestrel_sql.server.service import (
    CommandStatus,
    Figures,
    PrintedTopic,
    QueryFigures,
    Request,
    RowStream,
    State,
)
from kestrel_sql.server.serving.backend import Backend
from kestrel_sql.server.serving.inserts import RowInserter, column_name
from kestrel_sql.server.serving.queries import Queries
from kestrel_sql.server.serving.statements import Statements, is_command, opens
from kestrel_sql.server.serving.worker import Worker, limited, result_of
from kestrel_sql.server.traces import Traces
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.sql.parse.parser import ParsedStatement, placed_text

_log = logging.getLogger(__name__)

_PULLS = 50
"""How many pull queries are answered at a time; each may take long, and others wait for none."""

_COMMAND_TIMEOUT_S = 5.0
"""How long a request waits for the command that it names."""

_T = TypeVar("_T")


class Service:
    """Serves one engine."""

    def __init__(self, make: Callable[[Callable[[], None]], Backend], traces: Traces, host: str) -> None:
        """Make the engine and start the threads; Spark starts in the engine's, and requests that need it wait for it.

        `make` gets what wakes the engine's thread. Statements go into `traces`. `host` is where it answers.
        """
        self._engine = engine = make(self.wake)
        self._pushes = engine.pushes
        self._traces = traces
        self._statements = Statements(engine, traces, host)
        self._started: Future[None] = Future()
        self._ends = False
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="kestrel-reader")
        self._pullers = ThreadPoolExecutor(_PULLS, thread_name_prefix="kestrel-puller")
        self._queries = Queries(engine, self._readers, self._pullers)
        self._worker = Worker("kestrel-engine", engine.step, engine.idle_s)
        self._worker.submit(self._start)

    def close(self) -> None:
        """End all queries and threads."""
        self._ends = True
        self._engine.stop()
        self._pushes.close()
        for threads in (self._pullers, self._readers):
            threads.shutdown(wait=False, cancel_futures=True)
        self._worker.close()
        self._engine.close()

    def _start(self) -> None:
        try:
            self._engine.start()
            self._started.set_result(None)
        except Exception as error:  # noqa: BLE001 - told to every request
            if isinstance(error, EngineError):
                _log.error("Spark did not start. %s", error.render())
            else:
                _log.exception("Spark did not start")
            self._started.set_exception(error)

    def wake(self) -> None:
        """Let the engine's thread look for work, for records that somebody else put into topics."""
        self._worker.wake()

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster."""
        return self._engine.cluster_id

    @property
    def service_id(self) -> str:
        """The `ksql.service.id`."""
        return self._engine.config["ksql.service.id"]

    @property
    def state(self) -> State:
        """Starting until Spark runs."""
        if self._ends:
            return State.TERMINATING
        if self._engine.is_terminated:
            return State.TERMINATED
        if not self._started.done():
            return State.STARTING
        return State.ERROR if self._started.exception() else State.RUNNING

    async def parse(
        self, request: Request, check: Callable[[Sequence[ParsedStatement]], None], most: int
    ) -> Sequence[ParsedStatement]:
        """Parse the text of a request with its variables, and check the statements beside the event loop.

        A text that has more than `most` statements is read no further than one beyond them.

        Raises:
            ApiError: the text is not SQL, or `check` refuses it.
        """
        return await self._queries.parse(request, check, most)

    def source(self, name: str) -> Source | None:
        """The stream or table of that name."""
        return self._engine.session.catalog.sources.get(name)

    def sources(self) -> Sequence[Source]:
        """All streams and tables by name."""
        return sorted(self._engine.session.catalog.sources.values(), key=lambda source: source.name)

    async def execute(self, request: Request, parsed: Sequence[ParsedStatement]) -> Sequence[Entity]:
        """Try all statements of a request, then carry them out; commands and what follows them on the engine's thread.

        Raises:
            ApiError: a statement is refused.
        """
        self._check_ready()
        await self.wait_for(request.sequence)
        if any(opens(each.statement) for each in parsed):
            check_descriptors()
        variables = dict(request.variables)

        def work() -> list[Entity]:
            config = with_properties(self._engine.config, request.properties)
            planned = self._statements.validate(request.text, parsed, config, variables)
            return self._statements.run(request.text, parsed, planned, config, variables)

        # The spans of statements are below that of their request.
        traced = partial(copy_context().run, limited(work))
        if any(is_command(each.statement) for each in parsed):
            return await result_of(asyncio.wrap_future(self._worker.submit(traced)))
        return await result_of(asyncio.get_running_loop().run_in_executor(self._readers, traced))

    def carry_out(
        self, parsed: ParsedStatement, number: int, properties: Mapping[str, object], variables: Mapping[str, str]
    ) -> Sequence[Entity]:
        """Carry out the `number`-th of several equal statements of the server's own scripts; wait until it is done.

        One that an earlier start carried out gives nothing.

        Raises:
            ApiError: it is refused.
        """

        def work() -> list[Entity]:
            if self._engine.done.count(parsed.text) >= number:
                return []
            config, own = with_properties(self._engine.config, properties), dict(variables)
            text = placed_text(parsed.text, parsed.span)
            planned = self._statements.validate(text, [parsed], config, own)
            entities = self._statements.run(text, [parsed], planned, config, own)
            self._engine.note_done(parsed.text)
            return entities

        return self._worker.submit(work).result()

    async def query(self, request: Request, parsed: ParsedStatement) -> RowStream:
        """Start the one SELECT of a request.

        Raises:
            ApiError: it is refused, or there are too many queries.
        """
        self._check_ready()
        await self.wait_for(request.sequence)
        with self._traces.statement(request.text):
            return await self._queries.start(request, parsed)

    async def print_topic(self, parsed: ParsedStatement, text: str) -> PrintedTopic:
        """Start the one PRINT of a request with this text.

        Raises:
            ApiError: there is no such topic.
        """
        self._check_ready()
        check_descriptors()
        statement = parsed.statement
        if not isinstance(statement, PrintTopic):
            raise ApiError(BAD_STATEMENT, "Statement type is not supported for this resource", statement=parsed.text)

        def check() -> None:
            try:
                printed_source(statement, self._engine.view())
            except EngineError as error:
                raise api_error(error, parsed.text, text) from error

        await result_of(asyncio.get_running_loop().run_in_executor(self._readers, limited(check)))
        return PrintedTopic(topic=statement.topic, lines=self._engine.print_lines(statement))

    async def inserter(self, target: str, properties: Mapping[str, object]) -> RowInserter:
        """Open a stream or table for rows.

        Raises:
            ApiError: it is unknown or read-only, or inserts are switched off.
        """
        self._check_ready()

        def work() -> RowInserter:
            config, session = with_properties(self._engine.config, properties), self._engine.session
            if not config.flag("ksql.insert.into.values.enabled"):
                raise ApiError(BAD_REQUEST, "The server has disabled INSERT INTO ... VALUES functionality.")
            try:
                source = writable_source(column_name(target), session.catalog, config)
            except EngineError as error:
                raise ApiError(BAD_STATEMENT, told(error)) from error
            return RowInserter(
                source, session.serde(), self._engine.asking.now, self._statements.produce, self._readers
            )

        return await result_of(asyncio.get_running_loop().run_in_executor(self._readers, limited(work)))

    def close_query(self, query_id: str) -> bool:
        """End a push query; whether there was one."""
        return self._pushes.end(query_id)

    async def wait_for(self, sequence: int) -> None:
        """Wait until a command has been executed.

        Raises:
            ApiError: it was not in time.
        """
        deadline = time.monotonic() + _COMMAND_TIMEOUT_S
        while sequence > self._engine.sequence:
            if time.monotonic() > deadline:
                raise ApiError(
                    SEQUENCE_TIMEOUT,
                    f"Timed out while waiting for a previous command to execute. command sequence number: {sequence}",
                )
            await asyncio.sleep(0.02)

    def status(self, command_id: str) -> CommandStatus | None:
        """The status of a command, None if it is unknown."""
        return self._engine.statuses.get(command_id)

    def statuses(self) -> Mapping[str, CommandStatus]:
        """The statuses of all commands."""
        return dict(self._engine.statuses)

    def check_property(self, name: str) -> None:
        """Check that the server does not prohibit a property.

        Raises:
            ApiError: it does.
        """
        check_allowed(name, self._engine.config)

    async def terminate(self, topics: Sequence[str]) -> Entity:
        """Close all queries and delete the sink topics that match a pattern.

        Raises:
            ApiError: a pattern is no regular expression, or the command is not durable.
        """
        self._check_ready()
        check = limited(partial(terminated_sinks, (), topics, self._engine.config))
        try:
            await result_of(asyncio.get_running_loop().run_in_executor(self._readers, check))
        except EngineError as error:
            raise ApiError(BAD_REQUEST, error.message) from error

        def terminate() -> int:
            try:
                return self._engine.terminate(topics)
            except EngineError as error:
                raise api_error(error, TERMINATE_CLUSTER) from error

        self._ends = True
        try:
            sequence = await result_of(asyncio.wrap_future(self._worker.submit(terminate)))
        finally:
            self._ends = False
        self._pushes.end_all()
        return {
            "@type": "currentStatus",
            "statementText": TERMINATE_CLUSTER,
            "commandId": TERMINATE_ID,
            "commandStatus": CommandStatus(status="QUEUED", message="Statement written to command topic").to_json(),
            "commandSequenceNumber": sequence,
            "warnings": [],
        }

    async def plan(self, query_id: str) -> Sequence[Mapping[str, object]]:
        """The steps of a persistent query.

        Raises:
            ApiError: there is no such query.
        """
        query = self._engine.session.queries.get(query_id)
        if query is None:
            raise ApiError(BAD_REQUEST, f"Unknown queryId: {query_id}", status=404)
        steps = partial(plan_steps, query.plan, self._engine.view())
        return await result_of(asyncio.get_running_loop().run_in_executor(self._readers, limited(steps)))

    def is_settled(self, since: float) -> bool:
        """Whether all queries have processed what was in their topics at a time (monotonic, s)."""
        return self._started.done() and self._engine.queries.is_settled(since)

    def figures(self) -> Figures:
        """Everything that is counted."""
        return Figures(
            queries=query_figures(self._engine, self._statements.lines),
            push_queries=self._pushes.queries,
            push_clients=self._pushes.clients,
            pull_queries=self._queries.pulled,
            rows_pushed=self._pushes.rows,
            rows_inserted=self._statements.inserted,
            dropped_clients=self._pushes.dropped,
            bad_records=self._engine.errors.bad.total,
            errors=list(self._engine.errors.latest),
        )

    def _check_ready(self) -> None:
        if self._ends:
            raise ApiError(TERMINATING, "The server is ending")
        if self._engine.is_terminated:
            raise ApiError(TERMINATED, "Server has been terminated")
        if self.state is State.ERROR:
            raise ApiError(NOT_READY, "Spark did not start; see the server's log")


def query_figures(engine: Backend, lines: Mapping[str, int]) -> list[QueryFigures]:
    """The figures of all persistent queries, whose statements stand on these lines; any thread may ask."""
    view, queries = engine.view(), engine.queries
    progress, lags, batches = queries.progress(), queries.lags(), queries.batches()
    figures = []
    for query in [*engine.session.queries.values()]:
        batch, state_rows = batches.get(query.id, (None, None))
        rows_in, rows_out, lag, error = progress.get(query.id, (0, 0, 0, ""))
        figures.append(
            QueryFigures(
                id=query.id,
                state=view.state(query),
                statement=query.statement_text,
                line=lines.get(query.id),
                sources=query.plan.sources,
                sink=query.plan.sink,
                rows_in=rows_in,
                rows_out=rows_out,
                lag=lag,
                lags=lags.get(query.id, {}),
                bad_records=engine.errors.bad.counts[query.id],
                late_records=engine.errors.bad.late[query.id],
                error=error,
                batch=batch,
                state_rows=state_rows,
            )
        )
    return figures
