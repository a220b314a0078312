"""`/ws/query`: a query over a websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from msgspec.structs import replace
from starlette.websockets import WebSocket, WebSocketDisconnect

from kestrel_sql.admin.entities.schemas import field_info
from kestrel_sql.server.errors import ApiError
from kestrel_sql.server.http.bodies import ksql_request, parse_object
from kestrel_sql.server.http.context import context_of
from kestrel_sql.server.http.endpoint import websocket
from kestrel_sql.server.json_values import row_writer, write_json
from kestrel_sql.server.service import PrintedTopic, RowStream, is_record
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import ParsedStatement

_NORMAL, _REFUSED, _FAILED = 1000, 1003, 1011
_REASON_BYTES = 123
_LIFETIME_S = 3600.0


@websocket("/ws/query", rule="R12")
async def ws_query(socket: WebSocket) -> None:
    """A query over a websocket: the fields, then a frame for each row.

    Example: WS /ws/query?request=%7B%22ksql%22:%22SELECT%20*%20FROM%20ORDERS%20LIMIT%200;%22%7D -> 101
    """
    await socket.accept()
    context = context_of(socket)
    try:
        if socket.query_params.get("version", "1") not in ("1", "0"):
            raise ApiError(40000, f"Received invalid api version: {socket.query_params['version']}")
        request = ksql_request(parse_object(socket.query_params.get("request", "")))
        parsed, service = await context.one_statement(socket, request), context.service
        printing = isinstance(parsed.statement, PrintTopic)
        parsed, limit = _without_limit(parsed)
        found = await (service.print_topic(parsed, request.text) if printing else service.query(request, parsed))
    except ApiError as error:
        await _fail(socket, error, _REFUSED)
        return
    texts = _lines(found) if isinstance(found, PrintedTopic) else _rows(found, limit)
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


def _without_limit(parsed: ParsedStatement) -> tuple[ParsedStatement, int | None]:
    """Take the LIMIT off a push query: tombstones, which are not sent, do not count."""
    query = parsed.statement
    if not isinstance(query, Query) or query.emit is None:
        return parsed, None
    return replace(parsed, statement=replace(query, limit=None)), query.limit


async def _rows(stream: RowStream, limit: int | None) -> AsyncIterator[bytes]:
    """The fields, then a text for each row that is no tombstone, up to `limit`."""
    yield write_json([field_info(column) for column in stream.columns])
    write = row_writer(stream.columns)
    if limit == 0:
        return
    async for batch in stream:
        shown = [row for row in batch if not row.tombstone][:limit]
        for row in shown:
            yield write_json({"row": {"columns": write(row.values)}})
        limit = None if limit is None else limit - len(shown)
        if limit == 0:
            return


async def _lines(printed: PrintedTopic) -> AsyncIterator[bytes]:
    async for lines in printed.lines:
        for line in lines:
            if is_record(line):
                yield write_json(line)


async def _gone(socket: WebSocket) -> None:
    with suppress(WebSocketDisconnect):
        while True:
            await socket.receive_text()


async def _fail(socket: WebSocket, error: ApiError, code: int) -> None:
    await socket.send_text(write_json({"error": error.message}).decode())
    reason = error.message.encode()[:_REASON_BYTES].decode(errors="ignore")
    await socket.close(code, reason)
