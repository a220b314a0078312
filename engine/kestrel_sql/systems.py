"""What Linux and macOS have and Windows lacks, each with what stands in for it there."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import IO

from kestrel_sql.errors import EngineError


def _module(name: str) -> ModuleType | None:
    """A module of the standard library, None on systems without it."""
    with suppress(ImportError):
        return import_module(name)
    return None


_fcntl, _resource, _select = map(_module, ("fcntl", "resource", "select"))

HAS_TIMER = hasattr(signal, "setitimer")
"""Whether a signal can interrupt the main thread after some time of the processor."""


def check_spark_runs_here() -> None:
    """Refuse to start Spark on systems without sockets that have paths, over which its workers talk.

    Raises:
        EngineError: this is one.
    """
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "fork"):
        raise EngineError(
            "queries on Spark and on brokers need Linux or macOS",
            hint="on Windows use WSL; kestrel shell, kestrel run over files and qtt run --local work without Spark",
        )


def lock(file: int | IO[str] | IO[bytes], *, waits: bool) -> None:
    """Lock an open file for this process alone, until it is closed. Without `fcntl` nothing is locked.

    Raises:
        BlockingIOError: another process has locked it, and this one does not wait.
    """
    if _fcntl is not None:
        _fcntl.flock(file, _fcntl.LOCK_EX | (0 if waits else _fcntl.LOCK_NB))


def most_files() -> tuple[int, int] | None:
    """How many files and sockets this process may open now, and at most; None where there is no such limit."""
    if _resource is None:
        return None
    limits: tuple[int, int] = _resource.getrlimit(_resource.RLIMIT_NOFILE)
    return None if limits[0] == _resource.RLIM_INFINITY else limits


def user_id() -> int | None:
    """The number of the user, None where users have none."""
    return os.getuid() if hasattr(os, "getuid") else None


def user_name() -> str:
    """What tells the user's files from those of others in a folder for all: the number, or else the name."""
    number = user_id()
    return getpass.getuser() if number is None else str(number)


def at_fork_in_child(call: Callable[[], object]) -> None:
    """Call a function in each process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def read_line(pipe: IO[bytes], seconds: float | None) -> bytes:
    """Read a line; nothing if none has begun to come in time. What reads on afterwards may miss the next one."""
    if seconds is None:
        return pipe.readline()
    if _select is not None and hasattr(_select, "poll"):
        ready = _select.poll()
        ready.register(pipe, _select.POLLIN)
        return pipe.readline() if ready.poll(seconds * 1000) else b""
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.readline()), daemon=True)
    reader.start()
    reader.join(seconds)
    return found[0] if found else b""
