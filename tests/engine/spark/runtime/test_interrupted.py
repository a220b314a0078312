"""Ctrl-C while Spark starts; a test of a command of its own waits for no JVM."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kestrel_sql.spark.runtime.interrupted import end_jvms, ended_when_interrupted


def jvm() -> subprocess.Popen[bytes]:
    """A process that looks like a JVM which PySpark started."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "pyspark-shell"])


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not list processes")
def test_the_jvm_that_starts_ends_with_ctrl_c_and_no_other_process() -> None:
    starting, other = jvm(), subprocess.Popen(["sleep", "60"])
    with pytest.raises(KeyboardInterrupt), ended_when_interrupted():
        os.kill(os.getpid(), signal.SIGINT)
    assert starting.wait(10) == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()
    end_jvms()


def test_the_handler_of_pyspark_does_not_stay() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ended_when_interrupted():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


def test_py4j_writes_no_trace_of_an_interrupt(caplog: pytest.LogCaptureFixture) -> None:
    with ended_when_interrupted():
        pass
    try:
        try:
            raise RuntimeError("reentrant call inside <_io.BufferedReader>")
        except RuntimeError as error:
            raise OSError("Error while sending") from error
    except OSError:
        logging.exception("Exception while sending command.")
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        logging.exception("KeyboardInterrupt while sending command.")
    try:
        raise OSError("the JVM is gone")
    except OSError:
        logging.exception("Exception while sending command.")
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["the JVM is gone"]
