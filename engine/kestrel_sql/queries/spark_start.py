"""Starting Spark for a terminal: without what the JVM says of itself, and with Ctrl-C as Python knows it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from kestrel_sql.queries.interrupts import interrupts_kept
from kestrel_sql.spark.runtime.session import open_test_session


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
            with _silenced(), interrupts_kept():
                self.session = open_test_session()
            # What py4j logs of a call that was interrupted is of no use to a user.
            logging.getLogger().addHandler(logging.NullHandler())
        return self.session


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
