from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.streaming.stateful_processor_util import (
    TransformWithStateInPandasFuncMode,
    TransformWithStateInPandasUdfUtils,
)
from pyspark.sql.types import BinaryType, StructField, StructType

from kestrel_sql.spark.runtime import driver_worker, environment
from kestrel_sql.spark.state.processor import LateProcessor

KEY = StructType([StructField("task", BinaryType())])


class StateServer:
    """Stands in for the driver's: keeps what it is asked, and gives one answer to all."""

    def __init__(self, path: Path, answer: bytes = b"") -> None:
        self.asked: list[bytes] = []
        self._answer = answer
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen()
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def end(self) -> list[bytes]:
        """Wait for the end of the connection, and return what was asked."""
        self._thread.join(20)
        self._socket.close()
        return self.asked

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, connection.makefile("rwb") as stream:
            while head := stream.read(8):
                self.asked.append(stream.read(struct.unpack("!ii", head)[1]))
                stream.write(struct.pack("!i", len(self._answer)) + self._answer)
                stream.flush()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as found:
        yield Path(found)


def operator(processor: Any) -> Callable[..., object]:
    return TransformWithStateInPandasUdfUtils(processor, "none").transformWithStateUDF


def asked_by_pyspark(processor: Any, folder: Path) -> list[bytes]:
    server = StateServer(folder / "pyspark")
    client = StatefulProcessorApiClient(server.path, KEY)
    operator(processor)(client, TransformWithStateInPandasFuncMode.PRE_INIT, None, iter([]))
    client.sockfile.close()
    client._client_socket.close()
    return server.end()


def served(command: bytes, folder: Path) -> tuple[list[bytes], list[int]]:
    """What the worker asks of the state server, and the numbers that it sends to the driver after its own."""
    server = StateServer(folder / "states")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "driver"))
        listening.listen()
        process = subprocess.Popen(
            [str(environment._python()), "-m", driver_worker.PYSPARK_WORKER],
            env={**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": str(folder / "driver")},
        )
        connection, _ = listening.accept()
        with connection, connection.makefile("rwb") as stream:
            assert number(stream) == process.pid
            for text in (b"3.11", command):
                stream.write(struct.pack("!i", len(text)) + text)
            stream.write(struct.pack("!i", -1))
            for text in (server.path.encode(), KEY.json().encode()):
                stream.write(struct.pack("!i", len(text)) + text)
            stream.flush()
            sent = [number(stream)]
            if sent == [0]:
                sent.append(number(stream))
        assert process.wait(20) == 0
    return (server.end() if sent[-1] == 0 else []), sent


def number(stream: BinaryIO) -> int:
    found: int = struct.unpack("!i", stream.read(4))[0]
    return found


class Foreign(StatefulProcessor):
    """Opens a variable of another name."""

    def init(self, handle: Any) -> None:
        handle.getValueState("another", KEY)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        return iter(())


def test_it_asks_what_pyspark_s_worker_asks(folder: Path) -> None:
    server = StateServer(folder / "ours")
    with driver_worker._connected(server.path) as stream:
        driver_worker.open_variable(stream)
    assert server.end() == asked_by_pyspark(LateProcessor(None), folder)


def test_an_operator_of_ours_is_served(folder: Path) -> None:
    command = cloudpickle.dumps((operator(LateProcessor(None)), None))  # type: ignore[no-untyped-call]
    assert served(command, folder) == (list(driver_worker._REQUESTS), [0, 0])


def test_another_operator_goes_to_pyspark_s_worker(folder: Path) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    processor = Foreign()
    command = cloudpickle.dumps((operator(processor), None))  # type: ignore[no-untyped-call]
    assert driver_worker._OURS not in command
    asked = asked_by_pyspark(processor, folder)
    assert served(command, folder) == (asked, [0, 0])


def test_a_refusal_of_the_driver_is_an_error(folder: Path) -> None:
    server = StateServer(folder / "ours", answer=b"\x08\x01")
    with driver_worker._connected(server.path) as stream, pytest.raises(ConnectionError, match="refused"):
        driver_worker.open_variable(stream)
