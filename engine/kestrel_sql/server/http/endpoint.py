"""What an endpoint is: paths, the function that answers them, and all that the server and its manual say about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from kestrel_sql.server.http.context import context_of, principal_of
from kestrel_sql.server.http.framing import JSON, QUERY, negotiate


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One way to ask the server.

    The docstring of its function is the manual. Its `Example:` lines are tests: a method, a path, perhaps a body, and
    the status of the answer. `docs/endpoints.md` is made of both.
    """

    method: str
    """GET, POST, or WS for a websocket."""
    paths: Sequence[str]
    doc: str
    answer: Callable[[HttpRequest], Awaitable[Response]] | Callable[[WebSocket], Awaitable[None]]
    rule: str | None = None
    """The section of docs/spec/rest-api.md; None for what ksqlDB does not have."""
    role: str | None = None
    """What a user must be granted; without, any user may ask, or the function checks what is asked for."""
    needs_credentials: bool = True
    only_json: bool = False
    """Whether only clients find it that take JSON, as with ksqlDB."""

    def routes(self) -> list[BaseRoute]:
        """The routes of the application."""
        if self.method == "WS":
            return [WebSocketRoute(path, self.answer) for path in self.paths]
        return [Route(path, self.answer, methods=[self.method]) for path in self.paths]


def endpoint(
    method: str,
    *paths: str,
    rule: str | None = None,
    role: str | None = None,
    needs_credentials: bool = True,
    only_json: bool = False,
) -> Callable[[Callable[[HttpRequest], Awaitable[Response]]], Endpoint]:
    """Make the endpoint of a function that answers requests; see `Endpoint`."""

    def made(function: Callable[[HttpRequest], Awaitable[Response]]) -> Endpoint:
        async def answer(http: HttpRequest) -> Response:
            if only_json and negotiate(http.headers.get("accept", JSON), QUERY) is None:
                raise HTTPException(404)
            if role is not None:
                context_of(http).access.require(principal_of(http), role)
            return await function(http)

        return Endpoint(
            method=method,
            paths=paths,
            doc=function.__doc__ or "",
            answer=answer,
            rule=rule,
            role=role,
            needs_credentials=needs_credentials,
            only_json=only_json,
        )

    return made


def websocket(path: str, *, rule: str) -> Callable[[Callable[[WebSocket], Awaitable[None]]], Endpoint]:
    """Make the endpoint of a function that talks over a websocket."""
    return lambda function: Endpoint(method="WS", paths=(path,), doc=function.__doc__ or "", answer=function, rule=rule)
