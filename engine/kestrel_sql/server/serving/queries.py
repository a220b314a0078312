"""The queries of clients: pull queries are answered at once, push queries get a client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import count, islice
from types import MappingProxyType
from typing import Protocol, TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from kestrel_sql.admin.answer import Answer
from kestrel_sql.errors import EngineError
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.large_lists import drained
from kestrel_sql.queries.transient import QueryKind, Row, TransientQuery, is_scalable
from kestrel_sql.server.descriptors import check_descriptors
from kestrel_sql.server.errors import BAD_STATEMENT, ApiError, api_error
from kestrel_sql.server.properties import with_properties
from kestrel_sql.server.service import Request, RowStream
from kestrel_sql.server.serving.backend import Backend
from kestrel_sql.server.serving.lookups import Lookups
from kestrel_sql.server.serving.worker import limited, result_of
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.types.schema import Column


def pull_id(number: int) -> str:
    """Return the id of a pull query; `number` tells it from others of this server."""
    return f"query_{int(time.time() * 1000)}_{number}"


def transient_id(query: Query, config: Config, session: Session, number: int) -> str:
    """Return the id of a query; `number` tells it from others of this server."""
    if query.emit is None:
        return pull_id(number)
    if is_scalable(query, config, (persistent.plan for persistent in session.queries.values())):
        return f"SCALABLE_PUSH_QUERY_{uuid4()}"
    return f"transient_{query.source.name}_{number}"


_BATCH = 5_000


class PulledRows(msgspec.Struct, frozen=True):
    """The answer of a pull query (`RowStream`), which lets go of the rows that it has given."""

    query_id: str
    columns: tuple[Column, ...]
    kind: QueryKind
    limited: bool
    headers: Mapping[str, str]
    rows: list[Row]

    async def __aiter__(self) -> AsyncIterator[Sequence[Row]]:
        """Give the rows; a batch of many is written, and freed, beside the event loop."""
        rows = drained(self.rows)
        while batch := list(islice(rows, _BATCH)):
            yield batch

    def close(self) -> None:
        """Nothing is held."""


_T = TypeVar("_T")


class _Told(Protocol):
    def __call__(self, work: Callable[[], _T]) -> Callable[[], _T]: ...


class Queries(msgspec.Struct):
    """Starts the queries of clients; `readers` plan and `pullers` answer beside the event loop."""

    engine: Backend
    readers: Executor
    pullers: Executor
    pulled: int = 0
    """How many pull queries were answered."""
    _lookups: Lookups = msgspec.field(default_factory=Lookups)
    _numbers: count[int] = msgspec.field(default_factory=lambda: count(1))

    async def parse(
        self, request: Request, check: Callable[[Sequence[ParsedStatement]], None], most: int
    ) -> Sequence[ParsedStatement]:
        """Parse at most one more than `most` statements with the variables of a request, and check them.

        It happens beside the event loop.

        Raises:
            ApiError: the text is not SQL, or `check` refuses it.
        """
        known = self._lookups.parsed(request)
        if known is not None:
            check((known,))
            return (known,)
        scope = replace(self.engine.session, variables=dict(request.variables))

        def work() -> Sequence[ParsedStatement]:
            try:
                parsed = scope.parse(request.text, most + 1)
            except EngineError as error:
                raise api_error(error, request.text, request.text) from error
            check(parsed)
            return parsed

        parsed = await result_of(asyncio.get_running_loop().run_in_executor(self.readers, limited(work)))
        self._lookups.remember(request, parsed)
        return parsed

    async def start(self, request: Request, parsed: ParsedStatement) -> RowStream:
        """Start the one SELECT of a request; a look-up by key that is known is answered on the event loop.

        Raises:
            ApiError: it is refused, or there are too many queries.
        """
        number = next(self._numbers)
        try:
            known = self._lookups.answer(request, self.engine.session.catalog, self.engine.config)
        except EngineError as error:
            raise api_error(error, request.text, request.text) from error
        if known is not None:
            return self._rows(pull_id(number), QueryKind.PULL_TABLE, known)
        check_descriptors()
        statement = parsed.statement
        if not isinstance(statement, Query):
            raise ApiError(BAD_STATEMENT, "Statement type is not supported for this resource", statement=parsed.text)
        told = partial(_told, parsed.text, request.text)
        kind = self._pull if statement.emit is None else self._push
        return await kind(request, statement, number, told)

    async def _pull(self, request: Request, statement: Query, number: int, told: _Told) -> RowStream:
        catalog, settings, query_id = self.engine.session.catalog, self.engine.config, pull_id(number)

        def answer() -> PulledRows:
            config = with_properties(settings, request.properties)
            planned = self.engine.asking.plan(statement, config, query_id)
            found = self.engine.pull(planned, config)
            look_up = self.engine.look_up(planned)
            if look_up is not None:
                self._lookups.plan(request, catalog, settings, look_up)
            return self._rows(query_id, planned.kind, found)

        return await result_of(asyncio.get_running_loop().run_in_executor(self.pullers, limited(told(answer))))

    def _rows(self, query_id: str, kind: QueryKind, found: Answer) -> PulledRows:
        self.pulled += 1
        rows = [Row(values, at in found.tombstones) for at, values in enumerate(found.rows)]
        return PulledRows(query_id, found.columns, kind, found.limited, self._staleness(), rows)

    def _staleness(self) -> Mapping[str, str]:
        """How many records the queries have still to process that the answer does not know of."""
        waiting = sum(sum(lags.values()) for lags in self.engine.queries.lags().values())
        return MappingProxyType({"kestrel-lag-records": str(waiting)})

    async def _push(self, request: Request, statement: Query, number: int, told: _Told) -> RowStream:
        loop, engine = asyncio.get_running_loop(), self.engine

        def plan() -> tuple[TransientQuery, Config]:
            config = with_properties(engine.config, request.properties)
            engine.pushes.check_room(statement)
            query_id = transient_id(statement, config, engine.session, number)
            return engine.asking.plan(statement, config, query_id), config

        planned, config = await result_of(loop.run_in_executor(self.readers, limited(told(plan))))
        client = engine.pushes.client(planned)

        def subscribe() -> None:
            engine.pushes.subscribe(client, planned, config, statement)

        try:
            await result_of(loop.run_in_executor(self.readers, told(subscribe)))
        except BaseException:
            client.close()
            raise
        return client


def _told(statement: str, text: str, work: Callable[[], _T]) -> Callable[[], _T]:
    """Work whose errors are told where it runs: to mask the values of a long text takes long."""

    def run() -> _T:
        try:
            return work()
        except EngineError as error:
            raise api_error(error, statement, text) from error

    return run
