"""The Spark session of a run: on the JVM that an earlier run left, or on a new one that is left to the next run."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Literal

from pyspark.sql import SparkSession

import kestrel_sql
from kestrel_qtt.drivers.driver import DriverError
from kestrel_qtt.drivers.warm import jvm
from kestrel_qtt.drivers.warm.lease import COLD_VARIABLE, Busy, Lease, socket_path, start_keeper, take
from kestrel_sql.spark.runtime.class_archive import archive_path, without_archive
from kestrel_sql.spark.runtime.session import open_test_session

_COLD = (COLD_VARIABLE, "CI", "PYTEST_XDIST_WORKER")
_SOCKETS = "spark.python.unix.domain.socket.dir"
_VARIABLES = ("HADOOP", "JAVA", "KESTREL", "LANG", "LC_", "PYSPARK", "PYTHON", "SPARK", "TMPDIR", "TZ")
"""How the names of environment variables begin that a JVM or its Python workers look at."""

_LARGEST_HEAP = 0.6
"""A JVM that has grown beyond this share of its heap is not kept: it would hold the memory for nothing."""

_opening = Lock()


def open_case_session() -> SparkSession:
    """Open the Spark session that cases run on; it is warm unless a variable of `_COLD` is set."""
    with _opening:
        if SparkSession.getActiveSession() is not None or any(os.environ.get(name) for name in _COLD):
            return open_test_session()
        try:
            path = socket_path()
        except DriverError as error:
            sys.stderr.write(f"this run starts a Spark of its own: {error}\n")
            return open_test_session()
        return WarmStart(path).open()


class WarmStart:
    """Takes the JVM of the keeper at `path`, or leaves a new one to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Python workers import the engine before they fork.
        self._code = code_state(Path(kestrel_sql.__path__[0]))
        self.lease: Lease | None = None

    def open(self) -> SparkSession:
        """Open a session, and give its JVM back when this process ends."""
        spark = open_test_session(connect=self.connect)
        if self.lease is not None:
            atexit.register(self._leave, self.lease, spark)
        return spark

    def connect(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Have PySpark use a JVM that is kept, or a new one that will be, and give the settings for its session."""
        # A JVM that was started before there was an archive is as good as one that uses it.
        key = jvm_key({name: without_archive(value) for name, value in settings.items() if name != _SOCKETS})
        taken = take(self._path)
        if isinstance(taken, Busy):
            return settings
        if taken is not None and not self._joins(taken, key):
            taken.leave("end")
            taken = None
        self.lease = taken
        folder = taken.jvm["folder"] if taken else tempfile.mkdtemp(prefix="jvm-", dir=self._path.parent)
        chosen = {**settings, _SOCKETS: folder}
        if taken is None:
            self.lease = self._started(chosen, key, Path(folder))
        return chosen

    def _joins(self, lease: Lease, key: str) -> bool:
        """Whether the JVM fits, and Spark runs there; its Python workers have loaded today's code afterwards."""
        if lease.jvm["key"] != key:
            return False
        try:
            spark = jvm.join(lease.jvm["port"], lease.jvm["secret"])
            if lease.code != self._code:
                jvm.drop_workers(spark, daemons=True)
            os.truncate(_log(lease.jvm["folder"]), 0)
        except Exception:  # noqa: BLE001 - whatever is wrong with a JVM, a new one has it not
            jvm.forget()
            return False
        return True

    def _started(self, settings: Mapping[str, str], key: str, folder: Path) -> Lease | None:
        """Start a JVM, and give it to a keeper; where that is not possible it ends with this process."""
        with _log(folder).open("ab") as log:
            try:
                started = jvm.start(settings, log)
            except Exception:
                sys.stderr.write(_log(folder).read_text(errors="replace"))
                shutil.rmtree(folder, ignore_errors=True)
                raise
        lease = start_keeper(self._path, {**started, "key": key, "folder": str(folder), "directory": str(Path.cwd())})
        if lease is None:
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        else:
            jvm.close_pipe()
        return lease

    def _leave(self, lease: Lease, spark: SparkSession) -> None:
        """Give the JVM back; what it and its Python workers printed goes to standard error.

        The next JVM starts from an archive of classes.
        """
        try:
            jvm.let_go(spark)
            then: Literal["keep", "end"] = "keep" if jvm.heap_in_use(spark) < _LARGEST_HEAP else "end"
        except Exception:  # noqa: BLE001 - a JVM that does not answer is not kept
            then = "end"
        with contextlib.suppress(OSError):
            sys.stderr.write(_log(lease.jvm["folder"]).read_text(errors="replace"))
        lease.leave(then, self._code)
        if not archive_path().exists():
            # Most runs need nothing of what makes an archive.
            from kestrel_sql.kafka.connector.prepare import archive_in_background

            archive_in_background()


def code_state(top: Path) -> str:
    """A hash that changes with every edit of Python files below a folder."""
    found = hashlib.sha256()
    for folder, _, names in os.walk(top):
        for name in sorted(names):
            if name.endswith((".py", ".lark")):
                state = os.stat(os.path.join(folder, name))
                found.update(f"{folder}/{name} {state.st_mtime_ns} {state.st_size}\n".encode())
    return found.hexdigest()


def jvm_key(settings: Mapping[str, str]) -> str:
    """A hash of what a JVM is started with: settings, versions, environment."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
    packages = [os.stat(path).st_mtime_ns for path in sys.path if path.endswith("-packages") and os.path.isdir(path)]
    parts = (sys.executable, sys.version, kestrel_sql.__path__[0], packages, settings, variables)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _log(folder: Path | str) -> Path:
    return Path(folder) / "log"
