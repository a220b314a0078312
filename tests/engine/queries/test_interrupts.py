"""Tests interrupts that are held back: alone, and while the engine runs a persistent query."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from kestrel_sql.queries.interrupts import delayed_interrupts
from kestrel_sql.queries.spark_execution import SparkCarrier
from kestrel_sql.spark.runtime.session import open_test_session
from tests.engine.queries.memory_engine import engine_with, tell


@pytest.fixture(autouse=True)
def _python_s_own_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_block_is_finished_first() -> None:
    done = []

    def work() -> None:
        with delayed_interrupts():
            interrupt()
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait() -> None:
    done = []

    def work() -> None:
        with delayed_interrupts():
            interrupt()
            interrupt()
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == []


def test_the_block_is_brought_to_its_end() -> None:
    end, asked = threading.Event(), []

    def stop() -> None:
        asked.append(threading.current_thread())
        if len(asked) == 1:
            raise RuntimeError("it has just ended by itself")
        end.set()

    def work() -> None:
        with delayed_interrupts(stop):
            interrupt()
            end.wait(30)

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - started < 20
    assert len(asked) >= 2
    assert threading.main_thread() not in asked


def test_an_error_caused_by_the_stop_is_an_interrupt() -> None:
    def work(*, interrupted: bool) -> None:
        with delayed_interrupts():
            if interrupted:
                interrupt()
            raise ValueError("of the block")

    with pytest.raises(KeyboardInterrupt):
        work(interrupted=True)
    with pytest.raises(ValueError, match="of the block"):
        work(interrupted=False)


def test_other_threads_are_left_alone() -> None:
    found = []

    def work() -> None:
        with delayed_interrupts():
            found.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [1]


SETUP = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
"""


@pytest.mark.spark
def test_an_interrupt_costs_a_persistent_query_nothing() -> None:
    spark = open_test_session()
    with engine_with(SETUP, SparkCarrier(lambda: spark)) as engine:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tell(engine, "INSERT INTO s VALUES (1, 2);")

        def interrupt_soon() -> None:
            deadline = time.monotonic() + 60
            while not spark.streams.active and time.monotonic() < deadline:
                time.sleep(0.01)
            interrupt()

        thread = threading.Thread(target=interrupt_soon)
        thread.start()
        # The persistent query has its turn before the push query.
        with pytest.raises(KeyboardInterrupt):
            tell(engine, "SELECT * FROM s EMIT CHANGES;")
        thread.join()
        assert tell(engine, "SELECT * FROM t;").rows == ((1, 2),)
        assert engine.queries.progress() == {"CTAS_T_0": (1, 1, 0, "")}
