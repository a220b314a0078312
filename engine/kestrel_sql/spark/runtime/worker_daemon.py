"""The process that Spark forks its Python workers from: everything heavy is imported here, once.

Named by `spark.python.daemon.module`. A worker forked from Spark's own daemon imports pandas, pyarrow and the engine
anew, which costs more than all the rows of a test.
"""

from __future__ import annotations

import gc
import importlib
import socket
import sys
from contextlib import suppress

from pyspark import daemon

PRELOADED = (
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.streaming.stateful_processor_util",
    "kestrel_sql.spark.pipeline.pipeline",
    "kestrel_sql.kafka.direct",
    "kestrel_sql.kafka.level_batches",
)

_TASKS = "pyspark.worker"
"""The module of the workers that run tasks; others live for one call of the driver."""

_work = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve tasks over a socket, as Spark's own function does; give 0 if it may serve others afterwards.

    A JVM that needs no more of a task closes the socket. Spark's daemon would print the trace of a worker that had more
    to say.
    """
    try:
        return _work(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


def drop_broken_pipes(unraisable: sys.UnraisableHookArgs) -> None:
    """Report an error that no code can catch, unless it is that of a socket which the JVM has closed.

    From Python 3.13 on, a writer that is collected with bytes left reports the error of its last flush.
    """
    if not isinstance(unraisable.exc_value, BrokenPipeError | ConnectionResetError):
        sys.__unraisablehook__(unraisable)


def _forget_jars() -> None:
    """Take Spark's jar off the path of imports: each worker would read its 6,000 entries anew, for 40 ms."""
    for path in [path for path in sys.path if path.endswith(".jar")]:
        sys.path.remove(path)
        sys.path_importer_cache.pop(path, None)


if __name__ == "__main__":
    _forget_jars()
    if _TASKS in sys.argv:
        for module in PRELOADED:
            # Spark would start a daemon that dies again for ever. A task that needs the module says what is wrong.
            with suppress(Exception):
                importlib.import_module(module)
    # What is imported never dies: kept out of collections, its pages stay shared between the workers.
    gc.collect()
    gc.freeze()
    daemon.worker = worker
    sys.unraisablehook = drop_broken_pipes
    daemon.manager()
