"""Ctrl-C while Spark starts."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kestrel_sql.spark.runtime.interrupted import ended_when_interrupted

STARTING = """
import os, signal, subprocess, sys
from kestrel_sql.spark.runtime.interrupted import ended_when_interrupted

# What starts the tests in the background may have Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
jvm, other = subprocess.Popen([*sleep, "pyspark-shell"]), subprocess.Popen(sleep)
try:
    with ended_when_interrupted():
        os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print(jvm.wait(10), other.poll())
other.kill()
"""
"""A process of its own: this one may have a JVM that other tests use."""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not list processes")
def test_the_jvm_that_starts_ends_with_ctrl_c_and_no_other_process() -> None:
    done = subprocess.run([sys.executable, "-c", STARTING], capture_output=True, text=True, check=True)
    assert done.stdout == f"{-signal.SIGKILL} None\n"


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
