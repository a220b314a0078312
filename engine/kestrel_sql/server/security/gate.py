"""What every request passes first: where it comes from, and who sends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import SplitResult, urlsplit

import msgspec
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kestrel_sql.server.errors import BAD_REQUEST, FORBIDDEN, UNAUTHORIZED, ApiError
from kestrel_sql.server.json_values import write_json
from kestrel_sql.server.security.access import EVERYBODY, Principal

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_CORS_METHODS = "GET, POST, HEAD"
_CORS_HEADERS = "X-Requested-With, Content-Type, Accept, Origin, Authorization"

Authenticate = Callable[[str], Awaitable[Principal | None]]
"""Gives the user of an Authorization header, None if it is not valid."""


class Gate(msgspec.Struct, frozen=True):
    """ASGI middleware that refuses requests of foreign pages and unknown users.

    A page of another origin may call only if `origins` names it, for a browser sends such calls with all that the user
    may do. Where the server listens on the loopback interface, the host must be one of this machine's names, lest a
    foreign name that points here makes the page's own origin of this server.
    """

    app: ASGIApp
    open_paths: frozenset[str]
    """What needs no credentials."""
    authenticate: Authenticate | None = None
    origins: tuple[str, ...] = ()
    local_only: bool = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            origin = self._checked_origin(headers, scope)
            if origin is not None and scope["type"] == "http" and scope["method"] == "OPTIONS":
                await _answer(send, 204, b"", _cors(origin, preflight=True))
                return
            principal = await self._principal(headers, scope["path"])
        except ApiError as error:
            await _refuse(scope, receive, send, error)
            return
        scope.setdefault("state", {})["principal"] = principal
        await self.app(scope, receive, send if origin is None else _with_headers(send, _cors(origin, preflight=False)))

    def _checked_origin(self, headers: Headers, scope: Scope) -> str | None:
        """The foreign origin that may ask, None for requests of no page or of this server's own.

        Raises:
            ApiError: another origin, or a host that is not this machine.
        """
        host = headers.get("host", "")
        if self.local_only and host and (_split(f"//{host}", "Host").hostname or "") not in _LOCAL:
            raise ApiError(
                FORBIDDEN, "This server answers to the names of the loopback interface only; --listen names others"
            )
        origin = headers.get("origin")
        if origin is None or _split(origin, "Origin").netloc == host:
            return None
        if origin in self.origins or "*" in self.origins:
            return origin
        raise ApiError(FORBIDDEN, "CORS Rejected - Invalid origin: --cors-origin names those that may call")

    async def _principal(self, headers: Headers, path: str) -> Principal:
        if self.authenticate is None or path in self.open_paths:
            return EVERYBODY if self.authenticate is None else Principal("anonymous")
        found = await self.authenticate(headers.get("authorization", ""))
        if found is None:
            raise ApiError(
                UNAUTHORIZED,
                "Unauthorized: valid credentials are needed",
                headers={"www-authenticate": 'Basic realm="kestrel"'},
            )
        return found


def _split(url: str, header: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise ApiError(BAD_REQUEST, f"The header {header} is malformed: {error}") from None


def _cors(origin: str, *, preflight: bool) -> list[tuple[bytes, bytes]]:
    headers = {"access-control-allow-origin": origin, "access-control-allow-credentials": "true", "vary": "origin"}
    if preflight:
        headers |= {"access-control-allow-methods": _CORS_METHODS, "access-control-allow-headers": _CORS_HEADERS}
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _with_headers(send: Send, headers: list[tuple[bytes, bytes]]) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return wrapped


async def _refuse(scope: Scope, receive: Receive, send: Send, error: ApiError) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": error.message[:100]})
        return
    extra = [(name.encode(), value.encode()) for name, value in error.headers.items()]
    await _answer(send, error.status, write_json(error.body), [(b"content-type", b"application/json"), *extra])


async def _answer(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})
