"""Servers against a broker, in processes of their own and in this one, and how tests ask them."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import httpx
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError
from kestrel_sql.formats.registry.memory import MemoryRegistry, SchemaRegistry
from kestrel_sql.kafka.broker.broker import HOST
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.connector.store import open_store_alone
from kestrel_sql.kafka.run.run import RunSettings, StoreUri
from kestrel_sql.planner.config import Config
from kestrel_sql.server.broker.backend import BrokerEngineSettings
from kestrel_sql.server.open import ServerSettings, broker_server
from kestrel_sql.session.session import Session
from kestrel_sql.spark.checkpoint.batch_log import numbered
from kestrel_sql.spark.state.checkpoint_path import StorePath
from tests.kafka.helpers import environment, spark_options, states
from tests.kafka.processes import ending, kill
from tests.kafka.scenario import LEAN
from tests.kafka.stores import Way

http = httpx.Client(timeout=180, limits=httpx.Limits(max_keepalive_connections=0))
"""Patient, and without connections that stay; to make one takes longer than many requests."""
EARLIEST = {"auto.offset.reset": "earliest"}
OPENS_SPARK = "a server of this process opens Spark"


@dataclass(slots=True)
class Server:
    """A server and how to ask it; `said` gives its messages to the user, `lives` whether it has not ended.

    `process` is the id of its process, `code` gives the exit code of one of its own.
    """

    url: str
    said: Callable[[], str]
    lives: Callable[[], bool]
    end: Callable[[], None]
    process: int = field(default_factory=os.getpid)
    code: Callable[[], int | None] = lambda: None

    def is_up(self) -> bool:
        try:
            return http.get(f"{self.url}/info").json()["KsqlServerInfo"]["serverStatus"] == "RUNNING"
        except (httpx.TransportError, ValueError, KeyError):
            return False

    def ksql(self, text: str, **more: Any) -> Any:
        body = {"ksql": text, "streamsProperties": EARLIEST, **more}
        answer = http.post(f"{self.url}/ksql", json=body)
        return answer.json()

    def query(self, text: str, properties: dict[str, str] = EARLIEST) -> list[Any]:
        body = {"sql": text, "properties": properties}
        answer = http.post(f"{self.url}/query-stream", json=body)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()[1:]]


@dataclass(slots=True)
class Servers:
    """Starts servers of one service; a second one on the same checkpoint is a standby."""

    servers: str
    folder: Path
    stack: ExitStack
    store: Way | None = None
    """Where the checkpoint is, if it is not in the folder."""
    service: str = field(default_factory=lambda: f"s{uuid4().hex[:8]}_")

    @property
    def command_topic(self) -> str:
        return f"_confluent-ksql-{self.service}_command_topic"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def _option(self) -> str:
        return str(self.checkpoint) if self.store is None else f"{self.store.uri}/{self.service}"

    @property
    def _settings(self) -> Mapping[str, str]:
        return {} if self.store is None else self.store.settings

    def lose(self) -> None:
        """Take the lease of the server that works away."""
        with open_store_alone(self._option, self._settings) as checkpoint:
            take_lease(checkpoint)

    def keys(self) -> list[int]:
        """The number of keys in the states of its queries, as `kestrel state` sees them."""
        return [each["keys"] for each in states(self._option, self._settings)]

    def start(self, *options: str) -> Server:
        """Start a server as a user does, in a process that `end` kills; without options it is quick to start."""
        port = free_port()
        log = self.folder / f"serve{port}.log"
        command = [sys.executable, "-m", "kestrel_sql.cli.main", "serve", "--listen", f"{HOST}:{port}"]
        command += ["--bootstrap-servers", self.servers, "--checkpoint", self._option, *spark_options(self._settings)]
        command += ["--service-id", self.service, "--master", "local[2]", *(options or LEAN)]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment())
        self.stack.enter_context(ending(process))
        end = partial(kill, process)
        url = f"http://{HOST}:{port}"
        return Server(url, log.read_text, lambda: process.poll() is None, end, process.pid, process.poll)

    def here(
        self,
        spark: SparkSession,
        *,
        adopts: bool = False,
        rebuilds: bool = False,
        removes_members: bool = False,
        registry: SchemaRegistry | None = None,
    ) -> Server:
        """Start a server in this process, with the session that tests share; `end` stops it."""
        port, said, ended = free_port(), list[str](), Event()

        def open_spark(*_: object) -> SparkSession:
            said.append(OPENS_SPARK)
            return spark

        place = self.checkpoint if self.store is None else StoreUri(self._option)
        engine = BrokerEngineSettings(
            run=RunSettings(config=KafkaConfig(servers=self.servers), checkpoint=place),
            push_queue_rows=100,
            say=said.append,
            adopts=adopts,
            rebuilds=rebuilds,
            removes_members=removes_members,
            open_spark=open_spark,
            close_spark=lambda _: None,
            rehearse=lambda *_: None,
        )

        def serve() -> None:
            session = Session(
                config=Config.of({"ksql.service.id": self.service}), registry=registry or MemoryRegistry()
            )
            try:
                with broker_server(session, engine, ServerSettings(port=port), ended):
                    ended.wait()
            except EngineError as error:
                said.append(error.render())

        def end() -> None:
            ended.set()
            thread.join(60)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        self.stack.callback(end)
        return Server(f"http://{HOST}:{port}", lambda: "\n".join(said), thread.is_alive, end)


def take_lease(checkpoint: StorePath) -> None:
    """Take the lease of a server away, as one does that finds it too old."""
    newest = max(numbered(checkpoint / "lease"))
    assert (checkpoint / "lease" / str(newest + 1)).create(b'{"process": 7, "host": "other"}')


def free_port() -> int:
    """A free port below those that the kernel gives to connections, one of which could take it before the server."""
    while True:
        port = random.randrange(15_000, 32_000)
        with suppress(OSError), socket.create_server((HOST, port)):
            return port


def eventually(holds: Callable[[], bool], server: Server, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while True:
        lives = server.lives()
        if holds():
            return
        assert lives, server.said()
        assert time.monotonic() < deadline, f"it did not come true in time: {server.said()}"
        time.sleep(0.3)
