"""An engine over topics in memory as a `Backend`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future

from msgspec.structs import replace

from kestrel_sql.admin.print_topic import format_lines, print_line, printed_source
from kestrel_sql.admin.view import EngineView
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.server.commands import terminated_sinks
from kestrel_sql.server.memory.push_queries import Pushes
from kestrel_sql.server.properties import altered_system
from kestrel_sql.server.serving.backend import Backend, Done, Written
from kestrel_sql.server.serving.error_log import ErrorLog
from kestrel_sql.session.session import Executed
from kestrel_sql.sql.nodes.admin import ControlQuery, PrintTopic
from kestrel_sql.sql.nodes.statements import AlterSystem
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.records import Record

_log = logging.getLogger(__name__)

_LOOK_S = 0.1


class MemoryBackend(Backend):
    """Serves a `ServedEngine`: persistent and push queries take turns in the engine's thread."""

    def __init__(self, engine: ServedEngine, queue_rows: int, wake: Callable[[], None]) -> None:
        """Start nothing; `wake` tells the engine's thread that there is work."""
        self._pushes = Pushes(engine, queue_rows, wake)
        super().__init__(engine, ErrorLog(engine.session), engine.queries, self._pushes)
        self._engine = engine
        self._wake = wake
        self._active = False
        self._turn = 0

    def start(self) -> None:
        """Let queries process what arrives."""
        self._active = True

    def stop(self) -> None:
        """Start no piece any more, and say how many records were bad."""
        self._active = False
        self.errors.close()

    def close(self) -> None:
        """Remove what is on disk."""
        self._engine.close()

    def step(self) -> bool:
        """Do a piece of work for the query whose turn it is; whether there was any."""
        if not self._active:
            return False
        waiting: list[Callable[[], None]] = [
            lambda name=name: self._advance(name)  # type: ignore[misc]
            for name, (_, _, lag, error) in self.queries.progress().items()
            if lag and not error and name not in self.queries.paused
        ]
        waiting += self._pushes.work()
        if not waiting:
            return False
        self._turn = (self._turn + 1) % len(waiting)
        waiting[self._turn]()
        self.errors.note(self._engine.take_log())
        return True

    def _advance(self, name: str) -> None:
        try:
            self._engine.advance(name)
        except Exception as error:  # noqa: BLE001 - one query's failure must not end the thread
            _log.exception("query %s failed", name)
            self._engine.fail(name, str(error).split("\n", 1)[0] or type(error).__name__)

    def view(self) -> EngineView:
        """What statements look at that ask about the engine."""
        return replace(self._engine.view(), base=self.base)

    async def print_lines(self, statement: PrintTopic) -> AsyncIterator[Sequence[str]]:
        """Give the lines of the topic's records: from now or FROM BEGINNING, every n-th of INTERVAL, up to LIMIT."""
        view = self._engine.view()
        source = printed_source(statement, view)
        position = 0 if statement.from_beginning else view.broker.count(statement.topic) or 0
        yield format_lines(source)
        left, interval = statement.limit, max(1, statement.interval or 1)
        while left is None or left > 0:
            found = view.broker.records(statement.topic)[position:]
            position += len(found)
            shown = [record for record in found if record.offset % interval == 0][:left]
            if shown:
                left = None if left is None else left - len(shown)
                yield [print_line(record, source, view) for record in shown]
            else:
                await asyncio.sleep(_LOOK_S)

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
        session = self.session
        sinks = terminated_sinks(session.catalog.sources.values(), topics, session.config)
        session.queries.clear()
        self._engine.flush()
        for sink in sinks:
            self._engine.broker.delete(sink.topic)
            session.delete_schemas(sink)
        self.is_terminated = True
        self.sequence += 1
        return self.sequence
