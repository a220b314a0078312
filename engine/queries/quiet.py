"""Starting Spark for a terminal: without what the JVM says of itself, and with Ctrl-C as Python knows it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from engine.spark.session import open_test_session


@dataclass(slots=True)
class QuietStart:
    """Opens the session at the first call, and tells `starting` that it takes a while."""

    starting: Callable[[], None] = lambda: None
    session: SparkSession | None = None

    def __call__(self) -> SparkSession:
        """Give the session.

        Raises:
            EngineError: no Java 17 or newer was found.
        """
        if self.session is None:
            self.starting()
            with _silenced():
                self.session = open_test_session()
            _take_interrupts_back()
        return self.session


def _take_interrupts_back() -> None:
    """Let an interrupt be a KeyboardInterrupt and nothing else: Spark's handler talks to a JVM that is already being talked to.

    Whoever runs a query stops it (`MemoryRunner`); what py4j logs of the call that was interrupted is of no use to a user.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.getLogger().addHandler(logging.NullHandler())


@contextmanager
def _silenced() -> Iterator[None]:
    """Send the standard error of this process, and of those that it starts meanwhile, nowhere."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
