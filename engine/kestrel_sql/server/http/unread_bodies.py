"""Bodies that nobody read: an answer must not leave the rest of its request in the connection."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MOST_BYTES = 256 << 10
_MOST_S = 1.0


class ReadBodies(msgspec.Struct, frozen=True):
    """ASGI middleware for HTTP/1.1.

    Before an answer starts, the rest of a small body is read, else the connection is closed.

    Without it a client that keeps its connection would send its next request into one that the server is about to
    close.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["http_version"].startswith("2"):
            await self.app(scope, receive, send)
            return
        body = _Body(receive)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not body.ended and not await body.drained():
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await self.app(scope, body.receive, sending)


class _Body(msgspec.Struct):
    source: Receive
    ended: bool = False

    async def receive(self) -> Message:
        message = await self.source()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.ended = True
        return message

    async def drained(self) -> bool:
        """Read the rest; whether it ended within the limits."""
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_MOST_S):
                while not self.ended and size <= _MOST_BYTES:
                    size += len((await self.receive()).get("body", b""))
        return self.ended
