"""What all routes share: the service, the limits, who asks, and the figures of the last half hour."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec
from starlette.requests import HTTPConnection

from kestrel_sql.server.errors import BAD_STATEMENT, TOO_MANY_REQUESTS, ApiError
from kestrel_sql.server.http.bodies import Limits
from kestrel_sql.server.security.access import Access, Principal
from kestrel_sql.server.service import QueryFigures, Request
from kestrel_sql.server.serving.service import Service
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import ParsedStatement

EVERY_S = 5.0
_KEPT = 360

Point = tuple[float, int, int, int]
"""Time (s since the epoch), rows in, rows out, lag in records."""


class History(msgspec.Struct):
    """Samples of every query, half an hour of them."""

    points: dict[str, deque[Point]] = {}

    async def sample(self, service: Service) -> None:
        """Take a sample every few seconds, until cancelled."""
        while True:
            self.take((await asyncio.to_thread(service.figures)).queries)
            await asyncio.sleep(EVERY_S)

    def take(self, queries: Sequence[QueryFigures]) -> None:
        """Take a sample of queries, and forget those that are gone."""
        for gone in self.points.keys() - {query.id for query in queries}:
            del self.points[gone]
        for query in queries:
            points = self.points.setdefault(query.id, deque(maxlen=_KEPT))
            points.append((round(time.time(), 1), query.rows_in, query.rows_out, query.lag))

    def of_all(self) -> Mapping[str, Sequence[Point]]:
        """The samples of each query, oldest first."""
        return {query_id: list(points) for query_id, points in self.points.items()}


class Context(msgspec.Struct):
    """One server as its routes see it."""

    service: Service
    access: Access
    limits: Limits = msgspec.field(default_factory=Limits)
    started: float = msgspec.field(default_factory=time.time)
    history: History = msgspec.field(default_factory=History)
    _pulls: dict[str, tuple[float, float]] = {}
    _pulling: int = 0

    async def parse(self, http: HTTPConnection, request: Request) -> Sequence[ParsedStatement]:
        """Parse a request, and check that its user may do what it asks.

        Raises:
            ApiError: it is no SQL, has too many statements, or is not allowed.
        """
        return await self.service.parse(request, partial(self._check, principal_of(http)), self.limits.statements)

    def _check(self, user: Principal, parsed: Sequence[ParsedStatement]) -> None:
        if len(parsed) > self.limits.statements:
            raise ApiError(
                BAD_STATEMENT,
                f"A request may have at most {self.limits.statements} statements",
                statement="",
            )
        for each in parsed:
            self.access.check(user, each, self.service.source)

    async def one_statement(
        self, http: HTTPConnection, request: Request, otherwise: int = BAD_STATEMENT
    ) -> ParsedStatement:
        """The only statement of a request, a SELECT or PRINT; `otherwise` is the code of the error for another.

        Raises:
            ApiError: it is something else.
        """
        check = partial(self._check_one, principal_of(http), request.text)
        (parsed,) = await self.service.parse(request, check, self.limits.statements)
        if not isinstance(parsed.statement, Query | PrintTopic):
            raise ApiError(
                otherwise,
                "Statement type is not supported here: send a SELECT or PRINT, and POST other statements to /ksql",
                statement=parsed.text if otherwise == BAD_STATEMENT else None,
            )
        return parsed

    def _check_one(self, user: Principal, text: str, parsed: Sequence[ParsedStatement]) -> None:
        self._check(user, parsed)
        if len(parsed) != 1:
            raise ApiError(
                BAD_STATEMENT, f"Expected exactly one KSQL statement; found {len(parsed)} instead", statement=text
            )

    @contextmanager
    def pulling(self, http: HTTPConnection) -> Iterator[None]:
        """Count a query that starts against the rate of its user.

        Raises:
            ApiError: there were too many in this second, or there are too many at this time.
        """
        self._take(principal_of(http).name)
        most = self.limits.concurrent_pulls
        if most is not None and self._pulling >= most:
            raise ApiError(TOO_MANY_REQUESTS, f"Host is at concurrency limit for pull queries, currently set to {most}")
        self._pulling += 1
        try:
            yield
        finally:
            self._pulling -= 1

    def _take(self, user: str) -> None:
        """Take one of the tokens of a user; a second's worth is the most that is saved up."""
        rate = self.limits.pulls_per_second
        if rate is None:
            return
        now = time.monotonic()
        tokens, then = self._pulls.get(user, (float(rate), now))
        tokens = min(float(rate), tokens + (now - then) * rate)
        if tokens < 1:
            raise ApiError(
                TOO_MANY_REQUESTS, f"Host is at rate limit for queries, currently set to {rate} a second for each user"
            )
        self._pulls[user] = tokens - 1, now


def context_of(http: HTTPConnection) -> Context:
    """The context of a request."""
    context: Context = http.app.state.context
    return context


def principal_of(http: HTTPConnection) -> Principal:
    """The user of a request."""
    principal: Principal = http.state.principal
    return principal
