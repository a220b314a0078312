"""Ctrl-C while Spark starts or works: no trace of py4j or Java on the terminal, and no JVM that goes on."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread

_ARGUMENT = b"pyspark-shell"
"""What PySpark calls the JVM that it starts."""

_LOGGERS = ("root", "py4j.clientserver", "py4j.java_gateway")
"""Where py4j writes of calls that failed."""


@contextmanager
def ended_when_interrupted() -> Iterator[None]:
    """End the JVM that starts in the block if Ctrl-C does; py4j writes no trace then, nor afterwards.

    PySpark removes the folder in which the JVM is about to leave its port, so that Java would write a trace. Once Spark
    runs, PySpark's handler of Ctrl-C would call the JVM, often amid another call; the handler from before stays.

    Raises:
        KeyboardInterrupt: the user interrupted the block.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_no_interrupt)
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except KeyboardInterrupt:
        end_jvms()
        raise
    finally:
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, before)


def end_jvms() -> None:
    """Kill the JVMs that this process has started: while they start, they do not notice for seconds that it has ended.

    Where the system does not list processes, they end by themselves.
    """
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for child in listed.read_text(encoding="ascii").split():
                if _ARGUMENT in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGKILL)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        # While Spark starts, PySpark's handler is there already.
        if isinstance(error, KeyboardInterrupt) or "reentrant call" in str(error):
            return False
        error = error.__context__
    return True
