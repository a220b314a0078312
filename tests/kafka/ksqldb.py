"""ksqlDB's real server, `../shared/oracle/server.sh`, as tests start, ask and stop it."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from kestrel_sql.kafka.broker.broker import HOST
from tests.kafka.processes import ending
from tests.kafka.servers import Server, free_port

COMMAND = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "server.sh"
PROPERTIES = (
    "auto.offset.reset=earliest",
    "processing.guarantee=exactly_once_v2",
    "commit.interval.ms=100",
    "num.stream.threads=1",
    # Kafka Streams does not leave its groups: so long they have members after its end.
    "ksql.streams.session.timeout.ms=10000",
)

_JVM = {
    "HEAP": "512m",
    "JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
}
"""A server of a test lives too briefly for the better of the two compilers."""


def needs_ksqldb() -> None:
    """Skip a test where ksqlDB's server is not to be had."""
    if not COMMAND.exists():
        pytest.skip(f"{COMMAND.parent} is absent: no server of ksqlDB is started")


def start_ksqldb(servers: str, service: str, folder: Path, stack: ExitStack, *properties: str) -> Server:
    """Start a server with further properties; `end` stops it as its own scripts do."""
    port = free_port()
    return _started(["rest", servers, str(port)], port, service, folder, stack, *properties)


def start_headless(
    servers: str, service: str, script: Path, folder: Path, stack: ExitStack, *properties: str
) -> Server:
    """Start a server that runs the queries of a script, and has neither an HTTP API nor a command topic."""
    return _started(["headless", servers, str(script)], 0, service, folder, stack, *properties)


def _started(what: list[str], port: int, service: str, folder: Path, stack: ExitStack, *properties: str) -> Server:
    log = folder / f"ksqldb-{service}.log"
    command = [str(COMMAND), *what, f"ksql.service.id={service}", *PROPERTIES, *properties]
    # There it puts its stores, and leaves them behind.
    environment = {**os.environ, **_JVM, "TMPDIR": str(folder)}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    stack.enter_context(ending(process))

    def end() -> None:
        process.send_signal(signal.SIGTERM)
        process.wait(120)

    return Server(f"http://{HOST}:{port}", log.read_text, lambda: process.poll() is None, end, process.pid)
