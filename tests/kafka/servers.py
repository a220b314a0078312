"""Server processes against a broker, and how tests ask them."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.kafka.helpers import environment
from tests.kafka.processes import ending

EARLIEST = {"auto.offset.reset": "earliest"}


@dataclass(slots=True)
class Server:
    """A server process and how to ask it."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/info", timeout=60).json()["KsqlServerInfo"]["serverStatus"] == "RUNNING"
        except (httpx.TransportError, ValueError):
            return False

    def ksql(self, text: str, **more: Any) -> Any:
        body = {"ksql": text, "streamsProperties": EARLIEST, **more}
        answer = httpx.post(f"{self.url}/ksql", json=body, timeout=180)
        return answer.json()

    def query(self, text: str, properties: dict[str, str] = EARLIEST) -> list[Any]:
        body = {"sql": text, "properties": properties}
        answer = httpx.post(f"{self.url}/query-stream", json=body, timeout=180)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()[1:]]


@dataclass(slots=True)
class Servers:
    """Starts servers of one service."""

    servers: str
    folder: Path
    stack: ExitStack
    service: str = field(default_factory=lambda: f"s{uuid4().hex[:8]}_")

    @property
    def command_topic(self) -> str:
        return f"_confluent-ksql-{self.service}_command_topic"

    def start(self, *options: str) -> Server:
        """Start a server; a second one on the same checkpoint is a standby."""
        port = _free_port()
        log = self.folder / f"serve{port}.log"
        command = [sys.executable, "-m", "kestrel_sql.cli.main", "serve", "--listen", f"127.0.0.1:{port}"]
        command += ["--bootstrap-servers", self.servers, "--checkpoint", str(self.folder / "checkpoint")]
        command += ["--service-id", self.service, "--master", "local[2]", *options]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment())
        self.stack.enter_context(ending(process))
        return Server(f"http://127.0.0.1:{port}", process, log)


def _free_port() -> int:
    """A free port below those that the kernel gives to connections, one of which could take it before the server."""
    while True:
        port = random.randrange(15_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def eventually(holds: Callable[[], bool], server: Server, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert server.process.poll() is None, server.log.read_text()
        assert time.monotonic() < deadline, f"it did not come true in time: {server.log.read_text()}"
        time.sleep(0.1)
