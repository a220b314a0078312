"""Servers for tests: in this process, on a free port of the loopback interface."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from h2.connection import H2Connection
from h2.events import DataReceived

from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served import ServedEngine
from kestrel_sql.server.open import Running, ServerSettings, memory_server
from kestrel_sql.session.session import Session
from kestrel_sql.spark.runtime.session import open_test_session

http = httpx.Client(timeout=300, limits=httpx.Limits(max_keepalive_connections=0))
"""Patient, because starting Spark on a busy machine has taken over a minute; without connections that stay."""


@dataclass(slots=True)
class Sparkless(ServedEngine):
    """An engine that never starts Spark: statements, inserts and errors need none."""

    def start(self) -> None:
        """Start nothing."""

    def lags(self) -> Mapping[str, Mapping[str, int]]:
        """Nothing waits."""
        return {}


@contextmanager
def sparkless_server(**settings: Any) -> Iterator[Running]:
    config = Config.of(settings.pop("config", {}))
    with memory_server(
        Sparkless(Session(config=config), open_spark=open_test_session), ServerSettings(port=0, **settings)
    ) as running:
        yield running


@contextmanager
def spark_server(**settings: Any) -> Iterator[Running]:
    config = Config.of(settings.pop("config", {}))
    with memory_server(
        ServedEngine(Session(config=config), by_time=True, open_spark=open_test_session),
        ServerSettings(port=0, **settings),
    ) as running:
        yield running


def ksql(url: str, text: str, **more: Any) -> httpx.Response:
    return http.post(f"{url}/ksql", json={"ksql": text, **more})


class Http2Request:
    """A request over HTTP/2 without TLS whose body is sent piece by piece while its answer is read."""

    def __init__(self, url: str, path: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._connection = H2Connection()
        self._connection.initiate_connection()
        headers = {":method": "POST", ":scheme": "http", ":authority": f"{host}:{port}", ":path": path}
        self._connection.send_headers(1, list(headers.items()))
        self._flush()
        self._received = b""

    def __enter__(self) -> Http2Request:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._connection.send_data(1, data)
        self._flush()

    def line(self) -> bytes:
        """The next line of the answer."""
        while b"\n" not in self._received:
            for event in self._connection.receive_data(self._socket.recv(65536)):
                if isinstance(event, DataReceived):
                    self._received += event.data
                    self._connection.acknowledge_received_data(event.flow_controlled_length, 1)
            self._flush()
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _flush(self) -> None:
        self._socket.sendall(self._connection.data_to_send())
