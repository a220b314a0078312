from __future__ import annotations

import socket

import pytest

from kestrel_sql.spark.runtime import worker_daemon as daemon


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
