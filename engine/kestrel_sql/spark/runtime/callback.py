"""Functions that Spark's threads call, and what such a call leaves open."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame


class BatchCallback:
    """A function for `foreachBatch` whose connection can be closed once its query has ended.

    py4j opens a socket, with a thread of Python that reads it, for each Java thread that calls back. It keeps both for
    ever when that thread ends.
    """

    def __init__(self, call: Callable[[DataFrame, int], None]) -> None:
        """Make a callback."""
        self._call = call
        self._connections: dict[int, Any] = {}

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Process a batch."""
        context: Any = batch.sparkSession.sparkContext
        # The connection of the thread that calls.
        connection = context._gateway._gateway_client.get_thread_connection()  # noqa: SLF001 - py4j has no other way
        self._connections[id(connection)] = connection
        self._call(batch, number)

    def close(self) -> None:
        """Close the connections; the query must have ended."""
        while self._connections:
            _, connection = self._connections.popitem()
            # Its thread reads the end, and closes it. To close it here would wait for that thread.
            with suppress(OSError, AttributeError):
                connection.socket.shutdown(socket.SHUT_RDWR)
