"""Checks that a request over TLS is for the server that its connection names (`ksql.server.sni.check.enable`)."""

from __future__ import annotations

import ssl
from contextvars import ContextVar

import msgspec
from starlette.datastructures import URL
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from kestrel_sql.server.errors import MISDIRECTED, ApiError
from kestrel_sql.server.http.answers import error_answer

# asyncio makes the handshake of a connection in the context that the tasks for its requests are made in.
_asked: ContextVar[str | None] = ContextVar("asked", default=None)


def remember(_connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: ssl.SSLContext) -> None:
    """Remember the server name of a handshake; an `sni_callback`."""
    _asked.set(name)


class CheckServerName(msgspec.Struct, frozen=True):
    """ASGI middleware that refuses requests whose host is not the server name of their connection."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        name = _asked.get()
        if scope["type"] == "http" and name is not None:
            host = URL(scope=scope).hostname if "host" in HTTPConnection(scope).headers else None
            if host is not None and host != name:
                error = ApiError(MISDIRECTED, f"This connection is to {name}, and the request is for {host}")
                await error_answer(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)
