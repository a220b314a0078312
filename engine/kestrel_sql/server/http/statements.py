"""`/ksql`, `/ksql/terminate`, and what became of commands."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kestrel_sql.server.errors import UNKNOWN_COMMAND, ApiError
from kestrel_sql.server.http.answers import json_answer
from kestrel_sql.server.http.bodies import ksql_request, read_as, read_object, texts_of
from kestrel_sql.server.http.context import context_of
from kestrel_sql.server.http.endpoint import endpoint


@endpoint("POST", "/ksql", rule="R5", only_json=True)
async def ksql(http: HttpRequest) -> Response:
    """One entity for each statement that has an answer; all statements are tried first.

    Example: POST /ksql {"ksql": "LIST STREAMS;"} -> 200
    """
    context = context_of(http)
    request = await read_as(ksql_request, http, context.limits)
    return json_answer(await context.service.execute(request, await context.parse(http, request)))


@endpoint("POST", "/ksql/terminate", rule="R11", role="admin", only_json=True)
async def terminate(http: HttpRequest) -> Response:
    """Ends all queries, deletes the topics that match a pattern of `deleteTopicList`, and then answers 503.

    Example: POST /ksql/terminate {"deleteTopicList": ["ORDERS_.*"]} -> 200
    """
    context = context_of(http)
    topics = texts_of(await read_object(http, context.limits), "deleteTopicList")
    return json_answer([await context.service.terminate(topics)])


@endpoint("GET", "/status/{command:path}", rule="R7", only_json=True)
async def status(http: HttpRequest) -> Response:
    """What became of a command.

    Example: GET /status/stream/`ORDERS`/create -> 200
    Example: GET /status/stream/`NOBODY`/create -> 404
    """
    command = unquote(http.path_params["command"])
    found = context_of(http).service.status(command)
    if found is None:
        raise ApiError(UNKNOWN_COMMAND, "Command not found")
    return json_answer(found.to_json())


@endpoint("GET", "/status", rule="R7", only_json=True)
async def statuses(http: HttpRequest) -> Response:
    """What became of all commands.

    Example: GET /status -> 200
    """
    known = context_of(http).service.statuses()
    return json_answer({"commandStatuses": {command: each.status for command, each in known.items()}})
