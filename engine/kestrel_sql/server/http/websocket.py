"""`/ws/query`: a query over a websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect

from kestrel_sql.server.entities.schemas import field_info
from kestrel_sql.server.errors import ApiError
from kestrel_sql.server.http.bodies import ksql_request, parse_object
from kestrel_sql.server.http.context import context_of
from kestrel_sql.server.json_values import row_writer, write_json
from kestrel_sql.server.service import PrintedTopic, RowStream
from kestrel_sql.sql.nodes.admin import PrintTopic

_NORMAL, _REFUSED, _FAILED = 1000, 1003, 1011
_REASON_BYTES = 123
_LIFETIME_S = 3600.0


async def ws_query(socket: WebSocket) -> None:
    """Answer `GET /ws/query?request=…`: the fields, then one frame a row."""
    await socket.accept()
    context = context_of(socket)
    try:
        if socket.query_params.get("version", "1") not in ("1", "0"):
            raise ApiError(40000, f"Received invalid api version: {socket.query_params['version']}")
        request = ksql_request(parse_object(socket.query_params.get("request", "")))
        parsed, service = await context.one_statement(socket, request), context.service
        printing = isinstance(parsed.statement, PrintTopic)
        found = await (service.print_topic(parsed, request.text) if printing else service.query(request, parsed))
    except ApiError as error:
        await _fail(socket, error, _REFUSED)
        return
    texts = _lines(found) if isinstance(found, PrintedTopic) else _rows(found)
    work = asyncio.create_task(_send(socket, texts))
    gone = asyncio.create_task(_gone(socket))
    try:
        await asyncio.wait({work, gone}, timeout=_LIFETIME_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not isinstance(found, PrintedTopic):
            found.close()
        for task in (work, gone):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _send(socket: WebSocket, texts: AsyncIterator[bytes]) -> None:
    try:
        async for text in texts:
            await socket.send_text(text.decode())
        await socket.send_text('{"error":"done"}')
        await socket.close(_NORMAL, "done")
    except ApiError as error:
        await _fail(socket, error, _FAILED)


async def _rows(stream: RowStream) -> AsyncIterator[bytes]:
    yield write_json([field_info(column) for column in stream.columns])
    write = row_writer(stream.columns)
    async for batch in stream:
        for row in batch:
            if not row.tombstone:
                yield write_json({"row": {"columns": write(row.values)}})


async def _lines(printed: PrintedTopic) -> AsyncIterator[bytes]:
    async for lines in printed.lines:
        for line in lines:
            yield write_json(line)


async def _gone(socket: WebSocket) -> None:
    with suppress(WebSocketDisconnect):
        while True:
            await socket.receive_text()


async def _fail(socket: WebSocket, error: ApiError, code: int) -> None:
    await socket.send_text(write_json({"error": error.message}).decode())
    reason = error.message.encode()[:_REASON_BYTES].decode(errors="ignore")
    await socket.close(code, reason)
