"""`/inserts-stream`: rows in and acknowledgements out on one connection, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kestrel_sql.server.errors import BAD_REQUEST, HTTP2_REQUIRED, ApiError
from kestrel_sql.server.http.answers import StreamAnswer
from kestrel_sql.server.http.bodies import object_of, parsed_as, read_lines
from kestrel_sql.server.http.context import context_of, principal_of
from kestrel_sql.server.http.endpoint import endpoint
from kestrel_sql.server.http.framing import DELIMITED, JSON, QUERY_STREAM, Framing, negotiate
from kestrel_sql.server.json_values import write_json
from kestrel_sql.server.service import Handed
from kestrel_sql.server.serving.inserts import RowInserter

_ONE_BY_ONE = 100
"""Up to how many acknowledgements come in a frame each, as ksqlDB sends them: ksqldb-js parses frame by frame."""

_IN_FLIGHT = 8
"""How many batches of rows may be on their way to the broker; a batch is what came in one piece, 16 KiB at most."""


@endpoint("POST", "/inserts-stream", rule="R10")
async def inserts_stream(http: HttpRequest) -> Response:
    """An acknowledgement for each row, in order, while rows are sent; over HTTP/2 only.

    Example: POST /inserts-stream {"target": "ORDERS"} -> 200
    """
    context = context_of(http)
    if not http.scope["http_version"].startswith("2"):
        raise ApiError(HTTP2_REQUIRED, "This endpoint is only available when using HTTP2")
    lines = read_lines(http, context.limits)
    try:
        async with asyncio.timeout(context.limits.body_seconds):
            first, *rest = await anext(lines, [b"{}"])
    except TimeoutError:
        raise ApiError(40800, "No arguments came in time: the first line is an object with a `target`") from None
    arguments = await parsed_as(dict, first)
    target, properties = arguments.get("target"), object_of(arguments, "properties")
    if not isinstance(target, str):
        raise ApiError(
            BAD_REQUEST, "Missing required creator property 'target': the first line is an object with a `target`"
        )
    context.access.check_insert(principal_of(http), target)
    inserter = await context.service.inserter(target, properties)
    as_array = negotiate(http.headers.get("accept"), {DELIMITED: Framing.DELIMITED, **QUERY_STREAM}) is Framing.JSON
    acks = _acks(inserter, rest, lines)
    return StreamAnswer(
        _array(acks) if as_array else _lines(acks), lambda: None, JSON if as_array else None, watch=False
    )


async def _acks(
    inserter: RowInserter, first: list[bytes], others: AsyncIterator[list[bytes]]
) -> AsyncIterator[list[bytes]]:
    """Write the rows, and give an acknowledgement for each; the first that fails is the last.

    A row that its topic refuses may be followed by up to `_IN_FLIGHT` batches without acknowledgements.
    """
    number = 0
    sent: asyncio.Queue[Handed | None] = asyncio.Queue()
    room = asyncio.Semaphore(_IN_FLIGHT)
    sending = asyncio.create_task(_send(inserter, _chain(first, others), sent, room))
    try:
        while (handed := await sent.get()) is not None:
            inserted = await handed.inserted
            room.release()
            acks = [b'{"seq":%d,"status":"ok"}' % at for at in range(number, number + inserted.count)]
            number += inserted.count
            if inserted.error is not None:
                yield [*acks, write_json(_failure(number, inserted.error))]
                return
            yield acks
        await sending
    finally:
        sending.cancel()


async def _send(
    inserter: RowInserter,
    batches: AsyncIterator[list[bytes]],
    sent: asyncio.Queue[Handed | None],
    room: asyncio.Semaphore,
) -> None:
    """Send batches before those that went ahead are acknowledged; None is the last of `sent`."""
    try:
        async for lines in batches:
            await room.acquire()
            handed = await inserter.hand_over(lines)
            sent.put_nowait(handed)
            if handed.refused:
                return
    finally:
        sent.put_nowait(None)


def _failure(number: int, error: ApiError) -> dict[str, object]:
    return {
        "seq": number,
        "status": "error",
        "@type": "InsertError",
        "error_code": error.code,
        "message": f"row {number}: {error.message}",
    }


async def _chain(first: list[bytes], others: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
    if first:
        yield first
    async for lines in others:
        yield lines


async def _lines(acks: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
    """Write each acknowledgement into a line: the first ones alone, later those together whose rows came together."""
    count = 0
    async for batch in acks:
        size = 1 if count < _ONE_BY_ONE else len(batch)
        for at in range(0, len(batch), size):
            yield b"".join(ack + b"\n" for ack in batch[at : at + size])
        count += len(batch)


async def _array(acks: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
    separator = b"["
    async for batch in acks:
        yield separator + b",".join(batch)
        separator = b","
    yield b"[]" if separator == b"[" else b"]"
