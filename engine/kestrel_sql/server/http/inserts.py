"""`/inserts-stream`: rows in and acknowledgements out on one connection, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kestrel_sql.server.errors import BAD_REQUEST, HTTP2_REQUIRED, ApiError
from kestrel_sql.server.http.answers import StreamAnswer
from kestrel_sql.server.http.bodies import parse_object, read_lines
from kestrel_sql.server.http.context import context_of, principal_of
from kestrel_sql.server.http.framing import DELIMITED, JSON, QUERY_STREAM, Framing, negotiate
from kestrel_sql.server.json_values import write_json
from kestrel_sql.server.service import Inserter

_TURN = 50
"""Rows after which other requests get their turn."""


async def inserts_stream(http: HttpRequest) -> Response:
    """Answer `POST /inserts-stream`."""
    context = context_of(http)
    if not http.scope["http_version"].startswith("2"):
        raise ApiError(HTTP2_REQUIRED, "This endpoint is only available when using HTTP2")
    lines = read_lines(http, context.limits)
    try:
        async with asyncio.timeout(context.limits.body_seconds):
            first = await anext(lines, b"{}")
    except TimeoutError:
        raise ApiError(40800, "No arguments came in time: the first line is an object with a `target`") from None
    arguments = parse_object(first)
    target, properties = arguments.get("target"), arguments.get("properties") or {}
    if not isinstance(target, str) or not isinstance(properties, dict):
        raise ApiError(
            BAD_REQUEST, "Missing required creator property 'target': the first line is an object with a `target`"
        )
    context.access.check_insert(principal_of(http), target)
    inserter = await context.service.inserter(target, properties)
    as_array = negotiate(http.headers.get("accept"), {DELIMITED: Framing.DELIMITED, **QUERY_STREAM}) is Framing.JSON
    chunks = _array(_acks(inserter, lines)) if as_array else _lines(_acks(inserter, lines))
    return StreamAnswer(chunks, lambda: None, JSON if as_array else None, watch=False)


async def _acks(inserter: Inserter, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Write the rows, and give an acknowledgement for each; the first that fails is the last."""
    number = 0
    try:
        async for line in lines:
            await inserter.insert(line)
            yield b'{"seq":%d,"status":"ok"}' % number
            number += 1
            if number % _TURN == 0:
                await asyncio.sleep(0)
    except ApiError as error:
        named = f"row {number}: {error.message}"
        yield write_json(
            {"seq": number, "status": "error", "@type": "InsertError", "error_code": error.code, "message": named}
        )


async def _lines(acks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for ack in acks:
        yield ack + b"\n"


async def _array(acks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    separator = b"["
    async for ack in acks:
        yield separator + ack
        separator = b","
    yield b"[]" if separator == b"[" else b"]"
