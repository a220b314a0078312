"""`/query`, `/query-stream` and `/close-query`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, nullcontext

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kestrel_sql.queries.transient import QueryKind, Row
from kestrel_sql.server.errors import BAD_REQUEST, ApiError
from kestrel_sql.server.http.answers import StreamAnswer
from kestrel_sql.server.http.bodies import ksql_request, query_request, read_as, read_object
from kestrel_sql.server.http.context import Context, context_of
from kestrel_sql.server.http.endpoint import endpoint
from kestrel_sql.server.http.framing import DELIMITED, QUERY, QUERY_STREAM, Frame, Framing, frame_of, negotiate
from kestrel_sql.server.service import PrintedTopic, Request, RowStream, is_record
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import ParsedStatement

_ONE_BY_ONE = 100
"""Up to how many rows of a batch come in a frame each, as ksqlDB sends them: ksqldb-js parses frame by frame."""


@endpoint("POST", "/query", rule="R9")
async def query(http: HttpRequest) -> Response:
    """The rows of one SELECT or PRINT; `Accept` chooses the framing.

    Example: POST /query {"ksql": "SELECT * FROM ORDERS LIMIT 0;"} -> 200
    """
    context = context_of(http)
    request = await read_as(ksql_request, http, context.limits)
    if not request.text.strip():
        raise ApiError(BAD_REQUEST, '"ksql" field must be populated')
    framing = _framing(http, QUERY, absent=Framing.OBJECTS)
    parsed = await context.one_statement(http, request, otherwise=BAD_REQUEST)
    if isinstance(parsed.statement, PrintTopic):
        if http.scope["http_version"].startswith("2"):
            raise ApiError(40500, "PRINT on /query needs HTTP/1.1; /query-stream takes both")
        return _printed(await context.service.print_topic(parsed, request.text), everything=True)
    return await _answer(context, http, request, parsed, framing, last=b"]\n")


@endpoint("POST", "/query-stream", rule="R9")
async def query_stream(http: HttpRequest) -> Response:
    """The rows of one SELECT or PRINT; `Accept` chooses the framing.

    Example: POST /query-stream {"sql": "SELECT * FROM ORDERS LIMIT 0;"} -> 200
    """
    context = context_of(http)
    framing = _framing(http, QUERY_STREAM, absent=Framing.DELIMITED)
    request = await read_as(query_request, http, context.limits)
    try:
        parsed = await context.one_statement(http, request)
        if isinstance(parsed.statement, PrintTopic):
            if framing is not Framing.DELIMITED:
                raise ApiError(40600, f"PRINT is answered as {DELIMITED} only")
            return _printed(await context.service.print_topic(parsed, request.text), everything=False)
        return await _answer(context, http, request, parsed, framing, last=b"]")
    except ApiError as error:
        if error.statement is not None and "\nStatement: " not in error.message:
            error.message = f"{error.message}\nStatement: {error.statement}"
        raise


@endpoint("POST", "/close-query", rule="R10")
async def close_query(http: HttpRequest) -> Response:
    """Ends a push query.

    Example: POST /close-query {"queryId": "nobody"} -> 400
    """
    context = context_of(http)
    query_id = (await read_object(http, context.limits)).get("queryId")
    if not isinstance(query_id, str):
        raise ApiError(BAD_REQUEST, "Missing required creator property 'queryId'")
    if not context.service.close_query(query_id):
        raise ApiError(BAD_REQUEST, f"No query with id {query_id}")
    return Response(status_code=200)


def _framing(http: HttpRequest, offered: Mapping[str, Framing], *, absent: Framing) -> Framing:
    accept = http.headers.get("accept")
    if accept is None:
        return absent
    found = negotiate(accept, offered)
    if found is None:
        raise HTTPException(404)
    return found


async def _answer(
    context: Context, http: HttpRequest, request: Request, parsed: ParsedStatement, framing: Framing, *, last: bytes
) -> Response:
    pulls = isinstance(parsed.statement, Query) and parsed.statement.emit is None
    with context.pulling(http) if pulls else nullcontext():
        stream = await context.service.query(request, parsed)
    frame = frame_of(framing, stream, last)
    # The rows of a pull are all there: there is no time in which its client could leave.
    watch = stream.kind is not QueryKind.PULL_TABLE
    return StreamAnswer(row_chunks(stream, frame), stream.close, framing.value, stream.headers, watch=watch)


async def _encoded(frame: Frame, batch: Sequence[Row]) -> bytes:
    """Encode a batch, a large one beside the event loop."""
    return frame.rows(batch) if len(batch) <= _ONE_BY_ONE else await asyncio.to_thread(frame.rows, batch)


async def row_chunks(stream: RowStream, frame: Frame) -> AsyncIterator[bytes]:
    """The chunks of a query's answer; a failure after the first comes as a row of its own."""
    yield frame.start
    try:
        async for batch in stream:
            if len(batch) > _ONE_BY_ONE:
                yield await _encoded(frame, batch)
            else:
                for row in batch:
                    yield frame.rows([row])
    except ApiError as error:
        yield frame.error(error) + frame.end(None)
        return
    yield frame.end("Limit Reached" if stream.limited else "Query Completed")


def _printed(printed: PrintedTopic, *, everything: bool) -> Response:
    """The lines of a topic; without `everything` its records only."""

    async def chunks() -> AsyncIterator[bytes]:
        async with aclosing(printed.lines) as batches:  # type: ignore[type-var]
            async for lines in batches:
                shown = lines if everything else [line for line in lines if is_record(line)]
                yield "".join(f"{line}\n" for line in shown).encode()

    return StreamAnswer(chunks(), lambda: None, None if everything else DELIMITED)
