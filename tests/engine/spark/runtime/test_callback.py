from __future__ import annotations

import errno
import socket

import pytest

from kestrel_sql.spark.runtime import callback
from kestrel_sql.spark.runtime.callback import PatientSocket


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
