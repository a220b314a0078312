"""All endpoints of the server as one ASGI application: a new one is a function of a module that is named here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from kestrel_sql.errors import EngineError
from kestrel_sql.server.errors import ApiError, api_error, internal_error
from kestrel_sql.server.http import info_endpoints, inserts, metrics, page, queries, statements, websocket
from kestrel_sql.server.http.answers import error_answer
from kestrel_sql.server.http.context import Context
from kestrel_sql.server.http.endpoint import Endpoint
from kestrel_sql.server.http.unread_bodies import ReadBodies
from kestrel_sql.server.security.gate import Authenticate, Gate

_log = logging.getLogger(__name__)

ENDPOINTS = tuple(
    each
    for module in (info_endpoints, statements, queries, inserts, metrics, page, websocket)
    for each in vars(module).values()
    if isinstance(each, Endpoint)
)
"""All of them; of two whose paths match, the first one answers."""


def build_app(
    context: Context,
    *,
    authenticate: Authenticate | None = None,
    origins: tuple[str, ...] = (),
    local_only: bool = True,
) -> ASGIApp:
    """The application over a service."""

    @asynccontextmanager
    async def sampling(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(context.history.sample(context.service))
        try:
            yield
        finally:
            task.cancel()

    app = Starlette(
        routes=[route for each in ENDPOINTS for route in each.routes()],
        lifespan=sampling,
        exception_handlers={
            ApiError: _api_error,
            EngineError: _engine_error,
            HTTPException: _http_error,
            ClientDisconnect: _client_left,
            Exception: _failure,
        },
    )
    app.router.redirect_slashes = False
    app.state.context = context
    open_paths = frozenset(path for each in ENDPOINTS if not each.needs_credentials for path in each.paths)
    return ReadBodies(Gate(app, open_paths, authenticate, origins, local_only))


async def _api_error(http: HttpRequest, error: Exception) -> Response:
    return error_answer(error) if isinstance(error, ApiError) else await _failure(http, error)


async def _engine_error(http: HttpRequest, error: Exception) -> Response:
    return error_answer(api_error(error, "")) if isinstance(error, EngineError) else await _failure(http, error)


async def _http_error(http: HttpRequest, error: Exception) -> Response:
    return PlainTextResponse("Not Found", 404)


async def _client_left(http: HttpRequest, error: Exception) -> Response:
    """Answer nobody: the client left amid the body of its request, which is no failure of the server."""
    return Response(status_code=400)


async def _failure(http: HttpRequest, error: Exception) -> Response:
    _log.error("%s %s failed", http.method, http.url.path, exc_info=error)
    return error_answer(internal_error(error))
