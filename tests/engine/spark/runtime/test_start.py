from __future__ import annotations

import threading
from threading import Event, Thread
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime import start
from kestrel_sql.spark.runtime.start import SparkStart


def test_what_hinders_the_session_is_raised_where_it_is_waited_for() -> None:
    def refuse() -> SparkSession:
        raise EngineError("no Java")

    opening = SparkStart(refuse)
    for _ in range(2):
        with pytest.raises(EngineError, match="no Java"):
            opening.session()


def test_a_session_that_is_stopped_meanwhile_is_no_error() -> None:
    class Stopped:
        def __getattr__(self, name: str) -> Any:
            raise Py4JNetworkError("Cannot call methods on a stopped SparkContext.")

    stopped: Any = Stopped()
    before = opening_threads()
    opening = SparkStart(lambda: stopped)
    assert opening.session() is stopped
    for thread in opening_threads() - before:
        thread.join(60)
        assert not thread.is_alive()
    with pytest.raises(EngineError, match="Spark has ended"):
        opening.is_ready()
    opening.close(lambda _: pytest.fail("a session that has ended is not to be closed"))


def opening_threads() -> set[Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "opening Spark"}


def test_no_thread_outlives_a_session_that_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Event()

    class Slow:
        def __getattr__(self, name: str) -> Any:
            stopped.wait()
            raise RuntimeError("Cannot call methods on a stopped SparkContext.")

    slow: Any = Slow()
    before = opening_threads()
    monkeypatch.setattr(start, "_runs", lambda _: True)
    opening = SparkStart(lambda: slow)
    opening.session()
    (thread,) = opening_threads() - before
    opening.close(lambda _: stopped.set())
    assert not thread.is_alive()
