"""The keeper: a small process that keeps the JVM of a finished run for the next one, and ends it after idle minutes.

It runs as a script, without site packages: everything it imports is of the standard library. It holds the pipe that is
the JVM's standard input, and a JVM that PySpark started ends when that pipe closes. So the JVM never outlives the
keeper.

A run takes the JVM by connecting to a Unix-domain socket in a folder of mode 700, and has it as long as the connection
is open. It gets one line of JSON (see `Greeting`) and may answer with one of its own (see `Answer`). A run that goes
without an answer has died, and its JVM ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Literal, NotRequired, TypedDict


class Jvm(TypedDict):
    """A JVM: `pipe` is the descriptor of its standard input, `process` its id, `folder` is removed at its end.

    `key` says what it was started with, and `directory` where; `port` and `secret` belong to its Py4J gateway.
    """

    pipe: int
    process: int
    folder: str
    directory: str
    key: str
    port: int
    secret: str


class Offer(TypedDict):
    """What a run says to the keeper that it starts: the path to listen at, the patience between runs, and the JVM."""

    socket: str
    idle_seconds: float
    jvm: Jvm


class Greeting(TypedDict):
    """What a keeper says to a run.

    Its JVM, unless another run has it, and which code the Python workers have loaded.
    """

    jvm: NotRequired[Jvm]
    code: str


class Answer(TypedDict):
    """What a run says before it goes.

    Whether to keep or to end the JVM, and which code its Python workers have loaded.
    """

    then: Literal["keep", "end"]
    code: str


class Keeper:
    """Gives the JVM of `offer` to one run after another, to `run` first."""

    def __init__(self, offer: Offer, listener: socket.socket, run: socket.socket) -> None:
        self._jvm = offer["jvm"]
        self._idle_seconds = offer["idle_seconds"]
        self._listener = listener
        self._run: socket.socket | None = None
        self._code = ""
        self._idle_since = time.monotonic()
        self._greet(run)

    def serve(self) -> None:
        """Serve runs until one says so, one dies, the JVM dies, or none has come for the idle time."""
        while True:
            poll = select.poll()
            poll.register(self._jvm["pipe"], 0)
            poll.register(self._listener, select.POLLIN)
            if self._run is not None:
                poll.register(self._run, select.POLLIN)
            ready = [descriptor for descriptor, _ in poll.poll(self._patience())]
            if not ready or self._jvm["pipe"] in ready:
                return
            if self._run is not None and self._run.fileno() in ready and not self._hear(self._run):
                return
            if self._listener.fileno() in ready:
                self._greet(self._listener.accept()[0])

    def _patience(self) -> float | None:
        """How many milliseconds to wait; no end while a run has the JVM."""
        if self._run is not None:
            return None
        return max(0.0, self._idle_since + self._idle_seconds - time.monotonic()) * 1000

    def _greet(self, run: socket.socket) -> None:
        """Let a run have the JVM, or tell it that another one has it."""
        greeting: Greeting = {"code": self._code}
        if self._run is None:
            greeting["jvm"] = self._jvm
            self._run = run
        with contextlib.suppress(OSError):
            run.sendall(json.dumps(greeting).encode() + b"\n")
        if self._run is not run:
            run.close()

    def _hear(self, run: socket.socket) -> bool:
        """Hear what a run says before it goes, and give whether the JVM can be kept.

        A run that ends it waits for our end.
        """
        said = _line(run)
        if not said:
            return False
        answer: Answer = json.loads(said)
        if answer["then"] == "end":
            return False
        run.close()
        self._run, self._code, self._idle_since = None, answer["code"], time.monotonic()
        return True


def _line(connection: socket.socket) -> bytes:
    """The line that the other end sends; empty where it goes before the end of one."""
    said = b""
    with contextlib.suppress(OSError):
        while not said.endswith(b"\n"):
            part = connection.recv(4096)
            if not part:
                return b""
            said += part
    return said


def main(descriptor: int) -> int:
    """Keep the JVM that the run at the other end of a connection offers.

    Give 1 where another keeper is there already.
    """
    # Windows has no such module, and no keeper.
    import fcntl

    run = socket.socket(fileno=descriptor)
    offer: Offer = json.loads(_line(run))
    path = Path(offer["socket"])
    lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 1
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        try:
            Keeper(offer, listener, run).serve()
        finally:
            # Whoever comes now finds nobody, and starts anew.
            path.unlink(missing_ok=True)
            os.close(offer["jvm"]["pipe"])
            shutil.rmtree(offer["jvm"]["folder"], ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
