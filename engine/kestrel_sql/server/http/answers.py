"""Answers: JSON, errors, and streams that end when their client does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kestrel_sql.server.errors import ApiError
from kestrel_sql.server.http.framing import JSON
from kestrel_sql.server.json_values import write_json


def json_answer(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with a JSON body."""
    return Response(write_json(content), status, dict(headers or {}), JSON)


def error_answer(error: ApiError) -> Response:
    """The answer of a request that failed."""
    return json_answer(error.body, error.status, error.headers)


class StreamAnswer(Response):
    """A body of chunks; `close` is called once, at its end or when the client has gone.

    Chunks wait until the client takes them. With `watch` the client's going is noticed while no chunk is there;
    without, the request's body is still being read by whoever makes the chunks.
    """

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        close: Callable[[], None],
        media_type: str | None,
        headers: Mapping[str, str] | None = None,
        *,
        watch: bool = True,
    ) -> None:
        """Make an answer of status 200."""
        self.status_code = 200
        self.background = None
        self.media_type = media_type
        self._chunks = chunks
        self._close = close
        self._watch = watch
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the chunks."""
        work = asyncio.create_task(self._send(send))
        gone = asyncio.create_task(_disconnect(receive)) if self._watch else None
        try:
            await asyncio.wait({task for task in (work, gone) if task is not None}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        except OSError:
            pass
        finally:
            self._close()
            for task in (work, gone):
                if task is not None:
                    task.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await task

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for chunk in self._chunks:
            if chunk:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                # Chunks that are sent in one turn of the event loop would come in one frame of HTTP/2.
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
