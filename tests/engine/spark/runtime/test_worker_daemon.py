from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.spark.runtime import environment
from kestrel_sql.spark.runtime import worker_daemon as daemon
from kestrel_sql.spark.runtime.session import open_test_session
from tests.engine.queries.memory_engine import engine_with, tell


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_whose_task_was_stopped_ends_without_a_trace(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(sock: socket.socket, authenticated: bool) -> int:
        raise error

    monkeypatch.setattr(daemon, "_work", interrupted)
    with socket.socket() as sock:
        assert daemon.worker(sock, True) == 1


def test_what_else_goes_wrong_in_a_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(sock: socket.socket, authenticated: bool) -> int:
        raise MemoryError

    monkeypatch.setattr(daemon, "_work", broken)
    with socket.socket() as sock, pytest.raises(MemoryError):
        daemon.worker(sock, True)


_COLLECTED = """
import os, sys
{hook}
read, write = os.pipe()
os.close(read)
file = os.fdopen(write, "wb", 65536)
file.write(b"rows")
del file
"""


def test_a_writer_that_is_collected_after_its_reader_has_gone_leaves_no_trace() -> None:
    # Development mode reports on every version of Python what 3.13 always does.
    def said(hook: str) -> str:
        words = [sys.executable, "-X", "dev", "-W", "ignore", "-c", _COLLECTED.format(hook=hook)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stderr

    assert "BrokenPipeError" in said("")
    module = "kestrel_sql.spark.runtime.worker_daemon"
    assert said(f"from {module} import drop_broken_pipes; sys.unraisablehook = drop_broken_pipes") == ""


@pytest.mark.spark
def test_workers_do_not_look_for_modules_in_spark_s_jars() -> None:
    paths = (
        open_test_session().sparkContext.parallelize([0], 1).flatMap(lambda _: [*sys.path, *sys.path_importer_cache])
    )
    assert [path for path in paths.collect() if path.endswith(".jar")] == []


@pytest.mark.spark
def test_operators_with_and_without_state_share_a_daemon() -> None:
    """Spark keeps a daemon, and idle workers, for each environment that it gives to workers."""
    text = """
        CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='s', format='JSON');
        CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
        INSERT INTO s VALUES (1, 2);
    """
    with engine_with(text) as engine:
        assert tell(engine, "SELECT * FROM t;").rows == ((1, 1),)
    jvm: Any = open_test_session()._jvm
    assert len(list(_operators_daemons(jvm.java.lang.ProcessHandle.current().pid()))) == 1


def _operators_daemons(jvm: int) -> Iterator[int]:
    """The daemons of a JVM that serve Spark SQL; those of RDDs have another environment."""
    for children in Path(f"/proc/{jvm}/task").glob("*/children"):
        for child in map(int, _read_of_process(children).split()):
            command, given = (_read_of_process(Path(f"/proc/{child}/{name}")) for name in ("cmdline", "environ"))
            if command.endswith(b"\0pyspark.worker\0") and b"\0PYTHON_UDF_BATCH_SIZE=" in given:
                yield child


def _read_of_process(file: Path) -> bytes:
    """What a file of a thread or process says; nothing if that ended after it was listed."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.mark.parametrize(
    ("python", "module"),
    [
        ("PYSPARK_DRIVER_PYTHON", "pyspark.sql.worker.lookup_data_sources"),
        ("PYSPARK_PYTHON", "pyspark.sql.worker.create_data_source"),
    ],
)
def test_an_idle_worker_whose_socket_the_jvm_closes_says_nothing(python: str, module: str) -> None:
    """The workers that plan data sources in the driver: the JVM closes the idle ones after some time."""
    environment.prepare_environment()
    # Not `tmp_path`: with several workers of pytest it is longer than the path of a socket may be.
    with tempfile.TemporaryDirectory() as folder:
        _close_an_idle_worker(os.environ[python], module, folder)


def _close_an_idle_worker(python: str, module: str, folder: str) -> None:
    settings = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": folder,
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true",
    }
    process = subprocess.Popen(
        [python, "-m", "pyspark.daemon", module],
        env=os.environ | settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    (length,) = struct.unpack("!i", process.stdout.read(4))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as jvm:
        jvm.connect(process.stdout.read(length).decode())
        (worker,) = struct.unpack("!i", jvm.recv(4))
    # When its input ends, the daemon kills the workers that still run.
    while Path(f"/proc/{worker}").exists():
        time.sleep(0.05)
    _, said = process.communicate()
    assert said == b""
