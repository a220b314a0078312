"""The run's side of a keeper: where it listens, how to take its JVM, and how to leave one behind."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec

from kestrel_qtt.drivers.driver import DriverError
from kestrel_qtt.drivers.warm.keeper import Answer, Greeting, Jvm, Offer
from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.private_folder import private_folder

COLD_VARIABLE = "KESTREL_COLD"
"""The environment variable that makes every run start a JVM of its own."""

IDLE_SECONDS = 15 * 60

_ANSWER_SECONDS = 5.0
"""A keeper answers at once; one that was stopped in the middle must not stop a run."""

_LONGEST = 40
"""How long a folder's path may be: that of a socket in a folder below it may have 104 bytes."""


_STARTED: list[subprocess.Popen[bytes]] = []
"""Keepers that this process started: nobody waits for them."""


class Lease(msgspec.Struct):
    """A JVM that this process alone may use until it says what is to become of it."""

    connection: socket.socket
    jvm: Jvm
    code: str

    def leave(self, then: Literal["keep", "end"], code: str = "") -> None:
        """Give the JVM back, whose Python workers have loaded `code`, or end it."""
        answer: Answer = {"then": then, "code": code}
        with self.connection, contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(answer).encode() + b"\n")
            if then == "end":
                self.connection.settimeout(_ANSWER_SECONDS)
                self.connection.recv(1)


class Busy(msgspec.Struct, frozen=True):
    """Another run has the JVM."""


def own_folder() -> Path:
    """The folder of this user for sockets.

    Raises:
        DriverError: it belongs to somebody else, or others may enter it.
    """
    usual = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    try:
        return private_folder(Path(usual if len(usual) <= _LONGEST else "/tmp"))
    except EngineError as error:
        raise DriverError(error.render()) from error


def socket_path() -> Path:
    """Where the keeper for this environment and working directory listens.

    Raises:
        DriverError: see `own_folder`.
    """
    name = sha256(f"{sys.prefix}\0{Path.cwd()}".encode()).hexdigest()[:12]
    return own_folder() / f"{name}.sock"


def socket_paths() -> list[Path]:
    """Where all keepers of this user listen.

    Raises:
        DriverError: see `own_folder`.
    """
    return sorted(own_folder().glob("*.sock"))


def take(path: Path) -> Lease | Busy | None:
    """Take the JVM of the keeper that listens at `path`; None if there is no keeper."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_ANSWER_SECONDS)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return _greeted(connection)


def start_keeper(path: Path, jvm: Jvm, idle_seconds: float = IDLE_SECONDS) -> Lease | None:
    """Give a JVM to a new keeper, and take it for this process; None where another keeper listens at `path`."""
    offer: Offer = {"socket": str(path), "idle_seconds": idle_seconds, "jvm": jvm}
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(jvm["pipe"], theirs.fileno()),
            cwd="/",
            start_new_session=True,
        )
    _STARTED.append(process)
    with contextlib.suppress(OSError):
        ours.sendall(json.dumps(offer).encode() + b"\n")
    lease = _greeted(ours)
    return lease if isinstance(lease, Lease) else None


def _greeted(connection: socket.socket) -> Lease | Busy | None:
    """Hear what the keeper at the other end has to say; None where it says nothing."""
    try:
        with connection.makefile("rb") as lines:
            greeting: Greeting = json.loads(lines.readline())
        connection.settimeout(None)
    except (OSError, ValueError):
        connection.close()
        return None
    if "jvm" not in greeting:
        connection.close()
        return Busy()
    return Lease(connection, greeting["jvm"], greeting["code"])
