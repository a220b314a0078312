"""Servers for tests: in this process, on a free port of the loopback interface."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import httpx
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset

from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.server.open import Running, ServerSettings, memory_server
from kestrel_sql.session.session import Session

http = httpx.Client(timeout=300, limits=httpx.Limits(max_keepalive_connections=0))
"""Patient, because starting Spark on a busy machine has taken over a minute; without connections that stay."""


@contextmanager
def sparkless_server(**settings: Any) -> Iterator[Running]:
    config = Config.of(settings.pop("config", {}))
    with memory_server(ServedEngine(Session(config=config)), ServerSettings(port=0, **settings)) as running:
        yield running


@contextmanager
def spark_server(**settings: Any) -> Iterator[Running]:
    config, topics = Config.of(settings.pop("config", {})), settings.pop("topics", TopicRule.HARNESS)
    with memory_server(
        ServedEngine(Session(config=config), by_time=True, topics=topics),
        ServerSettings(port=0, **settings),
    ) as running:
        yield running


def ksql(url: str, text: str, **more: Any) -> httpx.Response:
    return http.post(f"{url}/ksql", json={"ksql": text, **more})


class Http2Client:
    """A connection over HTTP/2 without TLS: requests on streams, whose bodies are sent piece by piece."""

    def __init__(self, url: str) -> None:
        self._authority = url.removeprefix("http://")
        host, port = self._authority.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self._connection = H2Connection()
        self._connection.initiate_connection()
        self.frames: dict[int, list[bytes]] = {}
        """The data frames of each stream."""
        self._bodies: dict[int, bytes] = {}
        self._statuses: dict[int, int] = {}
        self._ended: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def begin(self, method: str, path: str, *, ends: bool = False) -> int:
        """Send the headers of a request; its stream."""
        stream = self._connection.get_next_available_stream_id()
        headers = {":method": method, ":scheme": "http", ":authority": self._authority, ":path": path}
        self._connection.send_headers(stream, list(headers.items()), end_stream=ends)
        self._flush()
        self._bodies[stream] = b""
        return stream

    def data(self, stream: int, data: bytes, *, ends: bool = False) -> None:
        """Send a piece of a body, as the server gives room for it."""
        while data or ends:
            size = min(len(data), self._connection.local_flow_control_window(stream), 16_384)
            if data and not size:
                self._receive()
                continue
            ending = ends and size == len(data)
            self._connection.send_data(stream, data[:size], end_stream=ending)
            self._flush()
            data, ends = data[size:], ends and not ending

    def answer(self, stream: int) -> tuple[int, bytes]:
        """The status and the whole body of an answer; the status is 0 if the server reset the stream."""
        while stream not in self._ended:
            self._receive()
        return self._statuses.get(stream, 0), self._bodies[stream]

    def line_of(self, stream: int) -> bytes:
        """The next line of an answer."""
        while b"\n" not in self._bodies[stream]:
            self._receive()
        line, _, self._bodies[stream] = self._bodies[stream].partition(b"\n")
        return line

    def _receive(self) -> None:
        received = self.socket.recv(65536)
        assert received, "the server closed the connection"
        for event in self._connection.receive_data(received):
            match event:
                case DataReceived():
                    self._bodies[event.stream_id] += event.data
                    self.frames.setdefault(event.stream_id, []).append(event.data)
                    self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case ResponseReceived():
                    self._statuses[event.stream_id] = int(dict(event.headers)[b":status"])
                case StreamEnded() | StreamReset():
                    self._ended.add(event.stream_id)
                case _:
                    pass
        self._flush()

    def _flush(self) -> None:
        self.socket.sendall(self._connection.data_to_send())


class Http2Request(Http2Client):
    """A request over HTTP/2 without TLS whose body is sent piece by piece while its answer is read."""

    def __init__(self, url: str, path: str) -> None:
        super().__init__(url)
        self.stream = self.begin("POST", path)

    def send(self, data: bytes) -> None:
        self.data(self.stream, data)

    def line(self) -> bytes:
        """The next line of the answer."""
        return self.line_of(self.stream)
