from __future__ import annotations

import errno
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.spark.runtime import callback
from kestrel_sql.spark.runtime.callback import BatchCallback, PatientSocket
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.runtime.worker_monitors import end_monitors


class Listening(socket.socket):
    """A socket whose first calls of `accept` fail."""

    failures: list[int]

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            raise OSError(self.failures.pop(), "not now")
        return super().accept()


def test_a_call_waits_for_a_free_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback, "_PAUSE_S", 0)
    with Listening() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        patient = PatientSocket(listening)
        with socket.create_connection(patient.getsockname()):
            listening.failures = [errno.ENFILE, errno.EMFILE]
            accepted, _ = patient.accept()
            accepted.close()
        listening.failures = [errno.EBADF]
        with pytest.raises(OSError, match="not now"):
            patient.accept()


def monitors(jvm: Any) -> int:
    """How many threads look after the idle workers of a factory."""
    return sum(
        "Idle Worker Monitor" in thread.getName() for thread in jvm.java.lang.Thread.getAllStackTraces().keySet()
    )


def settled_monitors(jvm: Any) -> int:
    """How many are left once those that were told to end have ended."""
    found, deadline = monitors(jvm), time.monotonic() + 20
    while time.monotonic() < deadline:
        time.sleep(0.5)
        before, found = found, monitors(jvm)
        if found == before:
            break
    return found


def test_threads_of_workers_on_the_driver_end_with_a_query(tmp_path: Path) -> None:
    spark = open_test_session()
    jvm: Any = spark._jvm
    nothing = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
    factory = jvm.org.apache.spark.api.python.PythonWorkerFactory
    end_monitors(spark)
    before = settled_monitors(jvm)
    for _ in range(3):
        factory("python3", "pyspark.worker", "pyspark.daemon", nothing, False)
    factory("python3", "pyspark.worker", "pyspark.daemon", nothing, True)
    assert monitors(jvm) > before
    call = BatchCallback(lambda batch, number: None)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
    writer = rows.writeStream.foreachBatch(call).option("checkpointLocation", str(tmp_path))
    writer.trigger(once=True).start().awaitTermination(60)
    call.close()
    deadline = time.monotonic() + 20
    while monitors(jvm) > before + 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert monitors(jvm) == before + 1
