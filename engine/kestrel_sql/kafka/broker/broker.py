"""A broker of one node for trying things out and for tests: no replication, no authentication, this machine only."""

from __future__ import annotations

import base64
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from uuid import uuid4

import msgspec
from confluent_kafka import KafkaException

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.connector.jars import broker_jars
from kestrel_sql.spark.runtime.environment import UNVERIFIED, prepare_environment

HOST = "127.0.0.1"

_START_SECONDS = 60
_STOP_SECONDS = 20
_JAVA = ("-Xms48m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *UNVERIFIED.split())
"""A broker of tests starts more often than it runs long: compiling and checking less makes it start sooner.

Java begins with a 64th of the machine's memory and fills it before it collects; a broker with little to do needs less.
"""

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # Records of tests are of 1970: by default a broker would delete them at once, and refuse none.
    "log.retention.ms": "-1",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
"""What every broker that is started here has in its properties."""

_LISTS = frozenset({"listeners", "advertised.listeners", "listener.security.protocol.map"})
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Broker(msgspec.Struct):
    """A broker and its process; a context manager that stops it."""

    address: str
    data: Path
    process: subprocess.Popen[bytes]
    is_temporary: bool

    @staticmethod
    def start(port: int = 0, data: Path | None = None, more: Mapping[str, str] = _NOTHING) -> Broker:
        """Start a broker on `port` (0.

        A free one) that keeps its data in `data` (None: a temporary folder), and wait until it answers.

        `more` are properties of the broker; listeners among them come beside its own.

        Raises:
            EngineError: the jars are not to be had, the port is taken, or the broker ended or did not answer in time.
        """
        jars = broker_jars()
        folder = data or Path(tempfile.mkdtemp(prefix="kestrel-broker-"))
        folder.mkdir(parents=True, exist_ok=True)
        chosen = port or free_port()
        _check_free(chosen)
        settings = _write_settings(folder, chosen, more)
        command = java_command(jars)
        if not (folder / "log" / "meta.properties").exists():
            _format(command, settings, folder)
        with (folder / "broker.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "kafka.Kafka", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
                process_group=0,
            )
        broker = Broker(f"{HOST}:{chosen}", folder, process, data is None)
        try:
            broker._await()
        except BaseException:
            broker.kill()
            raise
        return broker

    def stop(self) -> None:
        """End the broker in good order; a temporary folder goes with it."""
        if self.is_temporary:
            self.kill()
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the broker at once."""
        self.process.kill()
        self.process.wait()
        if self.is_temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _await(self) -> None:
        """Wait until the broker answers a client."""
        client = admin_client(KafkaConfig(servers=self.address, properties={"reconnect.backoff.max.ms": "200"}))
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise EngineError(
                    f"the broker ended with code {self.process.returncode}: {self._last_words()}",
                    hint=f"see {self.data}/broker.log",
                )
            try:
                if client.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                time.sleep(0.05)
        raise EngineError(
            f"the broker did not answer within {_START_SECONDS} s: {self._last_words()}",
            hint=f"see {self.data}/broker.log",
        )

    def _last_words(self) -> str:
        lines = (self.data / "broker.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise EngineError(
                f"port {port} cannot be used: {error.strerror}", hint="--port 0 takes a free one"
            ) from error


def _write_settings(folder: Path, port: int, more: Mapping[str, str]) -> Path:
    path = folder / "server.properties"
    controller = _controller(path) or free_port()
    listeners = f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}"
    settings = {
        **SETTINGS,
        "listeners": listeners,
        "advertised.listeners": listeners,
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
        "log.dirs": str(folder / "log"),
    }
    for name, value in more.items():
        settings[name] = f"{settings[name]},{value}" if name in _LISTS else value
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return path


def _controller(path: Path) -> int | None:
    """The controller's port of an earlier start, which the data remember."""
    if not path.exists():
        return None
    found = re.search(
        r"^controller\.quorum\.bootstrap\.servers=.*:(\d+)$", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    return int(found.group(1)) if found else None


def java_command(jars: tuple[Path, ...]) -> list[str]:
    """Return the command that starts Java with the jars of a broker; the name of a class follows."""
    prepare_environment()
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    return [java, *_JAVA, "-cp", os.pathsep.join(str(jar) for jar in jars)]


def _format(command: list[str], settings: Path, folder: Path) -> None:
    """Give the folder the identity of a cluster, which a broker asks for before its first start."""
    with (folder / "broker.log").open("wb") as log:
        done = subprocess.run(
            [*command, "kafka.tools.StorageTool", "format", "--standalone", "-t", identity(), "-c", str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode:
        raise EngineError(f"the folder {folder} cannot be formatted for a broker", hint=f"see {folder}/broker.log")


def identity() -> str:
    """Return a new identity for a cluster or a controller, in Kafka's form of a UUID."""
    return base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=").replace("-", "A")


def die_with_parent() -> None:
    """Let the kernel end the broker when the process that started it is gone, however it went; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
