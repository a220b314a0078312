"""`/ksql`, `/ksql/terminate`, and what became of commands."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kestrel_sql.server.errors import UNKNOWN_COMMAND, ApiError
from kestrel_sql.server.http.answers import json_answer
from kestrel_sql.server.http.bodies import ksql_request, read_as, read_object, texts_of
from kestrel_sql.server.http.context import context_of, principal_of


async def ksql(http: HttpRequest) -> Response:
    """Answer `POST /ksql`: one entity for each statement that has an answer."""
    context = context_of(http)
    request = await read_as(ksql_request, http, context.limits)
    return json_answer(await context.service.execute(request, await context.parse(http, request)))


async def terminate(http: HttpRequest) -> Response:
    """Answer `POST /ksql/terminate`."""
    context = context_of(http)
    context.access.require(principal_of(http), "admin")
    topics = texts_of(await read_object(http, context.limits), "deleteTopicList")
    return json_answer([await context.service.terminate(topics)])


async def status(http: HttpRequest) -> Response:
    """Answer `GET /status/{type}/{entity}/{action}`."""
    command = unquote(http.path_params["command"])
    found = context_of(http).service.status(command)
    if found is None:
        raise ApiError(UNKNOWN_COMMAND, "Command not found")
    return json_answer(found.to_json())


async def statuses(http: HttpRequest) -> Response:
    """Answer `GET /status`."""
    known = context_of(http).service.statuses()
    return json_answer({"commandStatuses": {command: each.status for command, each in known.items()}})
