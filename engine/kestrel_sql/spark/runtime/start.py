"""Starts Spark beside other work: the JVM and the Python workers start while statements are planned and topics made."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError

_END_S = 10.0
"""How long the thread may take to end when its session is closed."""


class SparkStart:
    """A session that a thread opens. The thread ends with the process: nobody waits for a session that is not needed.

    PySpark installs its own handler of Ctrl-C in the main thread only, so that here Ctrl-C keeps its meaning.
    """

    def __init__(self, open_spark: Callable[[], SparkSession], starting: Callable[[], None] = lambda: None) -> None:
        """Take what opens the session, and what is called when that begins; nothing starts yet."""
        self._open_spark = open_spark
        self._starting = starting
        self._opened: Future[SparkSession] = Future()
        self._thread: Thread | None = None

    def begin(self, then: Callable[[SparkSession], object] | None = None) -> None:
        """Start to open the session, if that has not begun; `then` uses it in place of `warm`."""
        if self._thread is None:
            self._starting()
            self._thread = Thread(target=self._open, args=(then or warm,), name="opening Spark", daemon=True)
            self._thread.start()

    def session(self) -> SparkSession:
        """Wait for the session.

        Raises:
            EngineError: it could not be opened.
            KeyboardInterrupt: the user interrupted the wait, whatever else an interrupt means around it.
        """
        self.begin()
        with _interruptible():
            return self._opened.result()

    def is_ready(self) -> bool:
        """Whether the session is open and was used once.

        Raises:
            EngineError: it could not be opened, or it has ended.
        """
        if not self._opened.done():
            return False
        if not _runs(self._opened.result()):
            raise EngineError("Spark has ended", hint="restart this server; the machine's log may say why")
        return self._thread is not None and not self._thread.is_alive()

    def close(self, close_spark: Callable[[SparkSession], None] = SparkSession.stop) -> None:
        """Close the session, if it was opened."""
        if self._thread is not None and self._opened.done() and self._opened.exception() is None:
            if _runs(self._opened.result()):
                close_spark(self._opened.result())
            # Python aborts the process if it ends while a thread still reads the first job's result with Arrow.
            self._thread.join(_END_S)

    def _open(self, then: Callable[[SparkSession], object]) -> None:
        try:
            spark = self._open_spark()
        except BaseException as error:  # noqa: BLE001 - raised where the session is waited for
            self._opened.set_exception(error)
            return
        self._opened.set_result(spark)
        try:
            then(spark)
        except Exception:  # noqa: BLE001 - PySpark fails in ways of its own when its session is stopped meanwhile
            # Nobody waits for this; what hinders it hinders the queries, too, and they say so.
            return


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the block: nothing runs yet that would have to end in good order."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _runs(spark: SparkSession) -> bool:
    is_stopped: Any = True
    # Without its JVM it does not answer.
    with suppress(Py4JError, OSError):
        context: Any = spark.sparkContext
        is_stopped = context._jsc.sc().isStopped()  # noqa: SLF001 - the one way to its JVM
    return not is_stopped


def warm(spark: SparkSession) -> None:
    """Run a job without rows through Python and a shuffle.

    It starts workers and loads modules and classes before the first records come.
    """
    tasks = spark.sparkContext.defaultParallelism
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(_pass, "id BIGINT")
    rows.repartition(tasks).sortWithinPartitions("id").mapInArrow(_pass, "id BIGINT").toArrow()


def _pass(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
