"""Tells Spark's driver the state variable of our stateful operators, as PySpark's own worker does, without PySpark.

At every start of a query, the driver starts a Python process for each stateful operator, only to learn which state
variables it opens. Ours opens the same one each time. To import PySpark for that took 0.3 s of a processor, and with
many queries at once longer than the ten seconds that Spark waits (docs/adr/0040).

`environment` starts this script without site-packages: it needs the standard library only. PySpark's worker does the
work where the operator is not ours.
"""

from __future__ import annotations

import os
import runpy
import site
import socket
import struct
from importlib import import_module
from io import BufferedRWPair

PYSPARK_WORKER = "pyspark.sql.streaming.transform_with_state_driver_worker"

_OURS = b"kestrel_sql.spark.state.processor"
"""The module of the only processor that we give to Spark: its name stands in every pickled operator of ours."""

_SOCKET = "PYTHON_WORKER_FACTORY_SOCK_PATH"

_SCHEMA = b'{"fields":[{"metadata":{},"name":"blob","nullable":true,"type":"binary"}],"type":"struct"}'
_REQUESTS = (
    b"\x12\x02\x0a\x00",
    b"\x12\x64\x12\x62\x0a\x04page\x12\x5a" + _SCHEMA,
)
"""What `LateProcessor` asks of the driver, in Protobuf: a handle for the driver, and the state variable."""

_REFUSED = b"\x08"
"""How an answer begins that has a status. Protobuf leaves out the status of success, 0."""


class _Replayed:
    """A stream whose first bytes were read before."""

    def __init__(self, before: bytes, rest: BufferedRWPair) -> None:
        self._before, self._rest = before, rest

    def read(self, size: int) -> bytes:
        taken, self._before = self._before[:size], self._before[size:]
        return taken + (self._rest.read(size - len(taken)) if len(taken) < size else b"")


def main() -> None:
    """Serve the operator that comes over the socket which the environment names."""
    if _SOCKET not in os.environ:
        site.main()
        runpy.run_module(PYSPARK_WORKER, run_name="__main__")
        return
    with _connected(os.environ[_SOCKET]) as driver:
        _send(driver, os.getpid())
        version, command = _text(driver), _text(driver)
        if _OURS in command:
            _send(driver, 0)
            address = _text(driver) if _number(driver) == -1 else b""
            _text(driver)  # the schema of the key
            with _connected(os.fsdecode(address)) as server:
                open_variable(server)
            _send(driver, 0)
        else:
            site.main()
            before = b"".join(struct.pack("!i", len(text)) + text for text in (version, command))
            import_module(PYSPARK_WORKER).main(_Replayed(before, driver), driver)


def open_variable(server: BufferedRWPair) -> None:
    """Open the state variable of `LateProcessor` on the driver's state server.

    Raises:
        ConnectionError: the driver refused it.
    """
    for request in _REQUESTS:
        server.write(struct.pack("!ii", 0, len(request)) + request)
        server.flush()
        answer = _text(server)
        if answer.startswith(_REFUSED):
            raise ConnectionError(f"the driver refused the state variable: {answer!r}")


def _connected(path: str) -> BufferedRWPair:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        return connection.makefile("rwb")


def _send(stream: BufferedRWPair, number: int) -> None:
    stream.write(struct.pack("!i", number))
    stream.flush()


def _number(stream: BufferedRWPair) -> int:
    found: int = struct.unpack("!i", stream.read(4))[0]
    return found


def _text(stream: BufferedRWPair) -> bytes:
    """Read bytes behind their number."""
    return stream.read(_number(stream))


if __name__ == "__main__":
    main()
