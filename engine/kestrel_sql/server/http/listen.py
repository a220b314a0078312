"""The sockets: HTTP/1.1, HTTP/2 and websockets on one port, with and without TLS."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from hypercorn.asyncio import serve
from hypercorn.config import Config, Sockets
from starlette.types import ASGIApp

from kestrel_sql.errors import EngineError
from kestrel_sql.server.descriptors import is_out_of_descriptors, out_of_descriptors
from kestrel_sql.server.http import connections
from kestrel_sql.server.http.server_name import remember

_log = logging.getLogger(__name__)

_IDLE_S = 15.0
"""How long a connection may stay without a request, and how long the headers of one may take."""

_BACKLOG = 100

_QUIET_S = 60.0
"""How long nothing is said again of clients that cannot be accepted."""

_GRACE_S = 3.0
"""How long requests may take to end when the server ends."""


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Files in PEM.

    With `clients`, the certificates of authorities, clients must show a certificate that one of them signed.
    """

    certificate: Path
    key: Path
    clients: Path | None = None


class Listener:
    """An application on a port, in a thread of its own with its event loop."""

    def __init__(self, make_app: Callable[[], ASGIApp], host: str, port: int, tls: Tls | None = None) -> None:
        """Bind the socket; port 0 takes a free one.

        Raises:
            OSError: the address is not this machine's, or it is taken.
            EngineError: a file of TLS cannot be used.
        """
        self._config = _config(host, port, tls)
        self._sockets: Sockets = self._config.create_sockets()
        # The sockets are made here, so that their port is known before anybody is told of it.
        self._config.create_sockets = lambda: self._sockets  # type: ignore[method-assign]
        (self._bound,) = self._sockets.secure_sockets or self._sockets.insecure_sockets
        # Clients that come before the event loop does wait for it.
        self._bound.listen(_BACKLOG)
        self.port: int = self._bound.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{name}:{self.port}"
        self._make_app = make_app
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._quiet_until = 0.0
        self._thread = threading.Thread(target=self._run, name="kestrel-http", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stop answering, end all connections, and free the port."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join(2 * _GRACE_S + 1)
        self._bound.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the start
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(self._complain)
        connections.install()
        app = self._make_app()
        self._ready.set()
        await serve(app, self._config, shutdown_trigger=self._stop.wait)  # type: ignore[arg-type]

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what went wrong in the event loop.

        While no descriptor is free it tries again and again to accept the clients that wait, and is heard once.
        """
        if not is_out_of_descriptors(context.get("exception")):
            loop.default_exception_handler(context)
        elif loop.time() >= self._quiet_until:
            self._quiet_until = loop.time() + _QUIET_S
            _log.error("Clients wait to be accepted. %s", out_of_descriptors().message.replace("\n", " "))


class _Config(Config):
    """Hypercorn's settings, with TLS that remembers the server name that a client asks for."""

    def create_ssl_context(self) -> ssl.SSLContext | None:
        """Return the context, None without TLS."""
        context = super().create_ssl_context()
        if context is not None:
            context.sni_callback = remember
        return context


def _config(host: str, port: int, tls: Tls | None) -> Config:
    config = _Config()
    config.bind = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    config.include_server_header = False
    config.include_date_header = False
    config.keep_alive_timeout = _IDLE_S
    config.graceful_timeout = _GRACE_S
    config.shutdown_timeout = _GRACE_S
    config.h11_max_incomplete_size = 64 << 10
    config.h2_max_header_list_size = 64 << 10
    config.websocket_max_message_size = 1 << 20
    config.errorlog = None
    if tls is not None:
        config.certfile, config.keyfile = str(tls.certificate), str(tls.key)
        if tls.clients is not None:
            config.ca_certs, config.verify_mode = str(tls.clients), ssl.CERT_REQUIRED
        try:
            config.create_ssl_context()
        except OSError as error:
            names = ", ".join(str(each) for each in (tls.certificate, tls.key, tls.clients) if each is not None)
            raise EngineError(f"{names} cannot be used for TLS: {error.strerror or error}") from error
    return config
