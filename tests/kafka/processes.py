"""Finds and kills the processes of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kestrel_sql.kafka.broker.broker import Broker


def kill(process: subprocess.Popen[bytes], *, whole: bool = True) -> None:
    """Kill a driver, with or without its JVM and workers."""
    if whole:
        signal_all(process, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


@contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a run, and kill it at the end of the block if it still runs."""
    try:
        yield process
    finally:
        if process.poll() is None:
            kill(process)


def await_in(
    process: subprocess.Popen[bytes],
    happened: Callable[[], bool],
    otherwise: str,
    said: Callable[[], str],
    *,
    seconds: float,
    pause: float = 0.03,
) -> None:
    """Wait until a condition holds while a run lives; otherwise the error contains its output (`said`)."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert process.poll() is None, said()
        assert time.monotonic() < deadline, f"{otherwise}: {said()}"
        time.sleep(pause)


def jvm_of(driver: int) -> int:
    """The JVM of a driver: workers of Python come and go, the JVM is its own child."""
    started = Path(f"/proc/{driver}/task")
    children = {child for task in started.glob("*/children") for child in task.read_text().split()}
    (jvm,) = [int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "java\n"]
    return jvm


def sockets(pid: int) -> int:
    """How many sockets a process has."""
    found = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(descriptor.readlink()).startswith("socket:")
    return found


def workers(process: subprocess.Popen[bytes]) -> list[int]:
    """The Python workers of a driver, which Spark's daemon forked."""
    return [
        pid
        for pid, parent in _descendants(process.pid)
        if "kestrel_sql.spark.runtime.worker_daemon" in _command(parent) and _parent(pid) == parent
    ]


def executors(process: subprocess.Popen[bytes]) -> list[int]:
    """The executor JVMs of a driver."""
    return [pid for pid, _ in _descendants(process.pid) if "CoarseGrainedExecutorBackend" in _command(pid)]


def end(pid: int) -> bool:
    """Kill a process; return whether it was still running."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def signal_all(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a driver and all its descendants."""
    for pid in (process.pid, *(pid for pid, _ in _descendants(process.pid))):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class ReturningBroker:
    """A broker that can be killed and restarted at the same address with the same data."""

    def __init__(self, data: Path, more: Mapping[str, str] | None = None) -> None:
        self._data, self._more = data, more or {}
        self._broker = Broker.start(data=data, more=self._more)
        self.address = self._broker.address

    def kill(self) -> None:
        self._broker.kill()

    def restart(self) -> None:
        self._broker = Broker.start(int(self.address.rpartition(":")[2]), self._data, self._more)

    def __enter__(self) -> ReturningBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _descendants(pid: int) -> Iterator[tuple[int, int]]:
    """All descendants of a process, each with its parent."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        number = int(folder.name)
        children.setdefault(_parent(number), []).append(number)
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for child in children.get(parent, ()):
            yield child, parent
            waiting.append(child)


def _parent(pid: int) -> int:
    try:
        # The name of the program stands in brackets, and may hold anything.
        return int(
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
        )
    except (OSError, IndexError):
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
