"""A TCP proxy in front of a store, which tests let fail: refuse, hold or delay what goes through it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from kestrel_sql.kafka.broker.broker import HOST, free_port

_CHUNK = 1 << 16


class Proxy:
    """Passes connections on from its own port to another one of this machine."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._listen())

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Cut all connections and refuse new ones during the block, as a machine without the server does."""
        self._do(self._close())
        try:
            yield
        finally:
            self._do(self._listen())

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Accept connections, and pass nothing on before the end of the block."""
        self._loop.call_soon_threadsafe(self._open.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._open.set)

    @contextmanager
    def late(self, seconds: float = 2) -> Iterator[None]:
        """Pass each part of a request or an answer on some seconds later during the block."""
        self._delay = seconds
        try:
            yield
        finally:
            self._delay = 0.0

    def end(self) -> None:
        """Cut all connections and stop."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, HOST, self.port)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in [*self._writers]:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, here = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(self._pass(reader, here), self._pass(there, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._open.wait()
                if self._delay:
                    await asyncio.sleep(self._delay)
                writer.write(data)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()


@contextmanager
def proxy(target: int) -> Iterator[Proxy]:
    """Run a proxy to a port until the end of the block."""
    found = Proxy(target)
    try:
        yield found
    finally:
        found.end()
