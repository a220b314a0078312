"""All routes of the server as one ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from kestrel_sql.errors import EngineError
from kestrel_sql.server.errors import ApiError, api_error, internal_error
from kestrel_sql.server.http import info_endpoints, inserts, metrics, page, queries, statements, websocket
from kestrel_sql.server.http.answers import error_answer
from kestrel_sql.server.http.context import Context
from kestrel_sql.server.http.framing import JSON, QUERY, negotiate
from kestrel_sql.server.http.unread_bodies import ReadBodies
from kestrel_sql.server.security.gate import Authenticate, Gate

_log = logging.getLogger(__name__)

_Endpoint = Callable[[HttpRequest], Awaitable[Response]]


def _json(endpoint: _Endpoint) -> _Endpoint:
    """Let an endpoint be found by clients only that take JSON, as ksqlDB does."""

    async def answer(http: HttpRequest) -> Response:
        if negotiate(http.headers.get("accept", JSON), QUERY) is None:
            raise HTTPException(404)
        return await endpoint(http)

    return answer


ROUTES: tuple[BaseRoute, ...] = (
    Route("/", info_endpoints.root),
    Route("/ksql", _json(statements.ksql), methods=["POST"]),
    Route("/ksql/terminate", _json(statements.terminate), methods=["POST"]),
    Route("/query", queries.query, methods=["POST"]),
    Route("/query-stream", queries.query_stream, methods=["POST"]),
    Route("/inserts-stream", inserts.inserts_stream, methods=["POST"]),
    Route("/close-query", queries.close_query, methods=["POST"]),
    Route("/info", _json(info_endpoints.info)),
    Route("/healthcheck", _json(info_endpoints.healthcheck)),
    Route("/clusterStatus", _json(info_endpoints.cluster_status)),
    Route("/heartbeat", info_endpoints.refuse_internal, methods=["POST"]),
    Route("/lag", info_endpoints.refuse_internal, methods=["POST"]),
    Route("/v1/metadata", info_endpoints.metadata),
    Route("/v1/metadata/id", info_endpoints.metadata_id),
    Route("/status", _json(statements.statuses)),
    Route("/status/{command:path}", _json(statements.status)),
    Route("/is_valid_property/{name}", _json(info_endpoints.is_valid_property)),
    Route("/chc/ready", info_endpoints.alive),
    Route("/chc/live", info_endpoints.alive),
    Route("/metrics", metrics.metrics),
    Route("/ui", page.page),
    Route("/ui/data", page.page_data),
    Route("/ui/plan/{query}", page.page_plan),
    Route("/ui/{file}", page.page),
    WebSocketRoute("/ws/query", websocket.ws_query),
)


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
        routes=list(ROUTES),
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
    return ReadBodies(Gate(app, authenticate, origins, local_only))


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
