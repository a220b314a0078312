"""Functions that Spark's threads call, and what such a call leaves open."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.spark.runtime.worker_monitors import end_monitors

_PAUSE_S = 0.2
_SERVER = "GATEWAY_SERVER"
"""The name of py4j's server in Java for itself."""


def keep_accepting(spark: SparkSession) -> None:
    """Let Spark's threads call back for as long as the session runs, also after a time without free descriptors.

    py4j accepts no call ever again once it could not open the socket of one.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - py4j has no other way
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    server = gateway._callback_server  # noqa: SLF001
    if not isinstance(server.server_socket, PatientSocket):
        server.server_socket = PatientSocket(server.server_socket)


class PatientSocket:
    """A listening socket that waits for a free descriptor where it has none for a connection."""

    def __init__(self, listening: socket.socket) -> None:
        """Take the socket."""
        self._listening = listening

    def __getattr__(self, name: str) -> Any:
        """Everything else is as the socket has it."""
        return getattr(self._listening, name)

    def accept(self) -> tuple[socket.socket, object]:
        """Accept a connection."""
        while True:
            try:
                return self._listening.accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                time.sleep(_PAUSE_S)


class BatchCallback:
    """A function for `foreachBatch` whose connection can be closed once its query has ended.

    py4j opens a socket, with a thread of Python that reads it, for each Java thread that calls back. When that thread
    ends, it keeps both for ever, and the other end of the socket in Java. It also keeps this object for as long as Java
    has the query, and Java keeps the query for as long as the function holds it: an ended one lets go of its function.
    """

    def __init__(self, call: Callable[[DataFrame, int], None]) -> None:
        """Make a callback."""
        self._call: Callable[[DataFrame, int], None] | None = call
        self._connections: dict[int, Any] = {}
        self._spark: SparkSession | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Process a batch.

        Raises:
            RuntimeError: it was closed; the batch must not count as processed.
        """
        call = self._call
        if call is None:
            raise RuntimeError("a batch came after its query had ended")
        self._spark = batch.sparkSession
        context: Any = self._spark.sparkContext
        # The connection of the thread that calls.
        python: Any = context._gateway._gateway_client  # noqa: SLF001 - py4j has no other way
        connection = python.get_thread_connection()
        if id(connection) not in self._connections:
            java = JavaObject(_SERVER, python).getCallbackClient()
            self._connections[id(connection)] = connection, java, java.getPerThreadConnection()
        call(batch, number)

    def close(self) -> None:
        """Close what the query, which must have ended, leaves open, and forget the function."""
        self._call = None
        if self._spark is not None:
            with suppress(OSError, Py4JError):
                end_monitors(self._spark)
            self._spark = None
        while self._connections:
            _, (connection, java, other_end) = self._connections.popitem()
            # Its thread reads the end, and closes it. To close it here would wait for that thread.
            with suppress(OSError, AttributeError):
                connection.socket.shutdown(socket.SHUT_RDWR)
            # Where the JVM has ended, nothing is left open.
            with suppress(OSError, Py4JError):
                other_end.shutdown()
                java.connectionStopped(other_end)
