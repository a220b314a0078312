"""Connections that end with their client, and no sooner: what Hypercorn 0.18 does otherwise (docs/adr/0045)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any

import hypercorn.asyncio.run
import hypercorn.protocol
import hypercorn.protocol.h2
import hypercorn.protocol.h11
from h2.events import DataReceived, Event, RequestReceived
from h2.exceptions import ProtocolError
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Closed, Updated
from hypercorn.events import Event as ConnectionEvent
from hypercorn.protocol.events import Body, EndBody, Response, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.ws_stream import WSStream

_log = logging.getLogger(__name__)

_NO_LIMIT = 1 << 62

_LAST_WORDS_S = 1.0
"""How long what a client sent before it went may take to be read."""

_ABNORMAL = 1006
"""The code of a websocket that ended without a closing handshake."""


class Http2(H2Protocol):
    """Hypercorn's protocol, with flow control for each stream.

    Hypercorn waits until an application has taken what a stream sent, and reads nothing else meanwhile: a stream whose
    application no longer reads stops all others. Here a client gets room for more once the application has read, so the
    window of its stream bounds what waits. Data of a stream that was answered already is dropped, and an event that
    fails resets its stream: Hypercorn ends the connection, and with it the push queries of a client, for both.
    """

    def __init__(self, app: Any, config: Any, *rest: Any) -> None:
        """Make the protocol of one connection."""
        own = copy(config)
        own.max_app_queue_size = 0
        # At its limit Hypercorn ends the connection beneath the answers that run.
        own.keep_alive_max_requests = _NO_LIMIT
        super().__init__(app, own, *rest)
        self._whole_app = app
        self._unread: Counter[int] = Counter()

    async def initiate(self, headers: list[tuple[bytes, bytes]] | None = None, settings: bytes | None = None) -> None:
        """Begin, with room in the connection for what all its streams may send.

        A client that asks for HTTP/2 with settings that cannot be read has its connection closed.
        """
        try:
            await super().initiate(headers, settings)
        except Exception:  # noqa: BLE001 - h2 lets through whatever base64 and its frames raise
            await self.send(Closed())
            return
        window = self.connection.local_settings.initial_window_size
        self.connection.increment_flow_control_window((self.config.h2_max_concurrent_streams - 1) * window)
        await self._flush()

    async def handle(self, event: ConnectionEvent) -> None:
        """Handle bytes of the connection, or its end."""
        await super().handle(event)
        if isinstance(event, Closed):
            # Answers that wait for their client would wait for ever.
            for buffer in self.stream_buffers.values():
                await buffer.close()

    async def _handle_events(self, events: list[Event]) -> None:
        for event in events:
            try:
                if isinstance(event, DataReceived):
                    await self._receive(event)
                else:
                    await super()._handle_events([event])
            except Exception as error:  # noqa: BLE001 - one stream's failure must not end the connection
                _log.warning("%s failed: %s", type(event).__name__, type(error).__name__)
                await self._reset(getattr(event, "stream_id", 0))
        await self._flush()

    async def _receive(self, event: DataReceived) -> None:
        stream, data = self.streams.get(event.stream_id), event.data or b""
        if stream is None:
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            return
        self._unread[event.stream_id] += len(data)
        self.connection.acknowledge_received_data(event.flow_controlled_length - len(data), event.stream_id)
        await stream.handle(Body(stream_id=event.stream_id, data=data))

    async def _create_stream(self, request: RequestReceived) -> None:
        self.app = partial(self._run, request.stream_id)
        await super()._create_stream(request)

    async def _run(self, stream_id: int, scope: Any, receive: Any, *rest: Any) -> None:
        async def receiving() -> Any:
            message = await receive()
            # A message of a websocket has another size than what its client sent.
            read = len(message["body"]) if "body" in message else self._unread[stream_id]
            await self._acknowledge(stream_id, read)
            return message

        await self._whole_app(scope, receiving, *rest)

    async def _close_stream(self, stream_id: int) -> None:
        await super()._close_stream(stream_id)
        await self._acknowledge(stream_id, self._unread[stream_id])
        del self._unread[stream_id]

    async def _acknowledge(self, stream_id: int, size: int) -> None:
        size = min(size, self._unread[stream_id])
        if not size or self.closed:
            return
        self._unread[stream_id] -= size
        try:
            self.connection.acknowledge_received_data(size, stream_id)
            await self._flush()
        except ProtocolError:
            # The connection has ended.
            return

    async def _reset(self, stream_id: int) -> None:
        try:
            self.connection.reset_stream(stream_id)
        except (ProtocolError, ValueError):
            return
        # A stream whose request never got to the application has no state to close.
        with suppress(AttributeError):
            await self._close_stream(stream_id)


class WebSocket(WSStream):
    """Hypercorn's websocket, which tells its application when it is refused.

    Hypercorn does not if a client sends data before it is accepted: its push query would run for ever. A handshake
    that is no ASCII ends the connection without an answer, with a trace in the log.
    """

    async def handle(self, event: StreamEvent) -> None:
        """Handle what the client sent."""
        was_closed = self.closed
        try:
            await super().handle(event)
        except UnicodeDecodeError:
            self.closed = True
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            await self.send(Response(stream_id=self.stream_id, status_code=400, headers=headers))
            await self.send(EndBody(stream_id=self.stream_id))
        if self.closed and not was_closed and not isinstance(event, StreamClosed) and self.app_put is not None:
            await self.app_put({"type": "websocket.disconnect", "code": _ABNORMAL})


class Connection(TCPServer):
    """Hypercorn's connection, which ends at once when its client has gone.

    Hypercorn keeps the socket until the time for idle connections is over, and does not notice the end while a client
    that has sent its next request waits for an answer that never ends.
    """

    def __init__(self, *arguments: Any) -> None:
        """Serve one connection."""
        super().__init__(*arguments)
        self._gone = False
        reader = self.reader
        self._feed_eof, reader.feed_eof = reader.feed_eof, self._at_eof  # type: ignore[method-assign]
        # A client that leaves bytes unread resets its connection, which is an error and no end of what it sends.
        self._set_exception, reader.set_exception = reader.set_exception, self._broken  # type: ignore[method-assign]
        self._reading: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve until the client or the server ends, which is no error: Python would log that of the server."""
        with suppress(asyncio.CancelledError):
            await super().run()

    async def protocol_send(self, event: ConnectionEvent) -> None:
        """Send bytes; a client that has gone is not waited for."""
        if not (self._gone and isinstance(event, Updated)):
            await super().protocol_send(event)

    async def _read_data(self) -> None:
        self._reading = self.loop.create_task(super()._read_data())
        try:
            await asyncio.wait([self._reading])
        finally:
            self._gone = True
            self._reading.cancel()
            await self.idle_task.stop()
        if self._reading.cancelled():
            await self.protocol.handle(Closed())
        else:
            self._reading.result()

    def _at_eof(self) -> None:
        self._feed_eof()
        self.loop.call_later(_LAST_WORDS_S, self._end)

    def _broken(self, exc: Exception) -> None:
        self._set_exception(exc)
        self.loop.call_later(_LAST_WORDS_S, self._end)

    def _end(self) -> None:
        if self._reading is not None:
            self._reading.cancel()


def install() -> None:
    """Make Hypercorn use these connections."""
    hypercorn.protocol.h11.WSStream = WebSocket  # type: ignore[attr-defined]
    hypercorn.protocol.h2.WSStream = WebSocket  # type: ignore[attr-defined]
    hypercorn.protocol.H2Protocol = Http2  # type: ignore[attr-defined,assignment]
    hypercorn.asyncio.run.TCPServer = Connection  # type: ignore[attr-defined,assignment]
