"""Tests a store that refuses, stalls or answers late while a run has its checkpoint there, and one run that takes over."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.kafka.hdfs import hdfs_cluster
from tests.kafka.helpers import produce
from tests.kafka.processes import kill, signal_all
from tests.kafka.proxy import Proxy, proxy
from tests.kafka.s3 import S3
from tests.kafka.stored import WAIT_S, Stored, records, rows
from tests.kafka.stores import BUCKET, KINDS, Way

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

FAULT_S = float(os.environ.get("KESTREL_FAULT_S", "30"))
FAULTS: Mapping[str, Callable[[Proxy], AbstractContextManager[None]]] = {
    "refuses": Proxy.refusing,
    "stalls": Proxy.holding,
    "answers late": Proxy.late,
}


@dataclass(frozen=True, slots=True)
class Store:
    """A store with a proxy, and a way around the proxy if the kind of store allows two."""

    way: Way
    between: Proxy
    around: Way | None = None

    @contextmanager
    def without(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Keep a run from the store during the block, and leave others a way to it."""
        if self.around is not None:
            with self.between.holding():
                yield
            return
        signal_all(process, signal.SIGSTOP)
        try:
            yield
        finally:
            signal_all(process, signal.SIGCONT)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "hdfs":
        with hdfs_cluster(tmp_path) as uri, proxy(int(uri.rpartition(":")[2])) as between:
            # Spark stores the URI of a checkpoint in it, so all runs go the same way.
            yield Store(Way(f"hdfs://127.0.0.1:{between.port}"), between)
    else:
        server: S3 = request.getfixturevalue("s3")
        with proxy(server.port) as between:
            ways = (Way(f"s3a://{BUCKET}", each.settings) for each in (S3(between.port), server))
            yield Store(next(ways), between, next(ways))


def test_a_run_outlives_a_store_that_refuses_stalls_or_answers_late(
    stored: Stored, tmp_path: Path, store: Store
) -> None:
    way = store.way
    on_store = replace(stored, settings=way.settings)
    topic, count = f"{stored.name}_s", 100
    produce(stored.servers, topic, records(0, count))
    process = on_store.start(f"{way.uri}/{stored.name}", "store")
    try:
        on_store.await_rows(process, "store", count)
        for name, fault in FAULTS.items():
            before = len(rows(stored.servers, f"{stored.name}_t_store"))
            with fault(store.between):
                produce(stored.servers, topic, records(count, 100))
                time.sleep(FAULT_S)
                assert process.poll() is None, f"{name}: {on_store.log('store').read_text(encoding='utf-8')}"
            assert before == count
            count += 100
            on_store.await_rows(process, "store", count)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0, on_store.log("store").read_text(encoding="utf-8")
    finally:
        if process.poll() is None:
            kill(process)
    assert stored.run(tmp_path / "local", "folder", "--until-caught-up")[0] == 0
    found, expected = stored.outputs(["store", "folder"])
    assert len(found) == count
    assert found == expected


def test_a_run_that_its_store_does_not_answer_is_fenced_by_the_run_that_takes_over(
    stored: Stored, tmp_path: Path, store: Store
) -> None:
    way, direct = store.way, store.around or store.way
    first_way, second_way = replace(stored, settings=way.settings), replace(stored, settings=direct.settings)
    produce(stored.servers, f"{stored.name}_s", records(0, 100))
    first = first_way.start(f"{way.uri}/{stored.name}", "store")
    second = None
    try:
        first_way.await_rows(first, "store", 100)
        with store.without(first):
            produce(stored.servers, f"{stored.name}_s", records(100, 100))
            second = second_way.start(f"{direct.uri}/{stored.name}", "store")
            second_way.await_rows(second, "store", 200)
        assert first.wait(WAIT_S) == 1, first_way.log("store").read_text(encoding="utf-8")
        said = " ".join(first_way.log("store").read_text(encoding="utf-8").split())
        assert f"another run has taken it (process {second.pid} on" in said, said
        produce(stored.servers, f"{stored.name}_s", records(200, 50))
        second_way.await_rows(second, "store", 250)
        second.send_signal(signal.SIGTERM)
        assert second.wait(WAIT_S) == 0, second_way.log("store").read_text(encoding="utf-8")
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                kill(process)
    assert stored.run(tmp_path / "local", "folder", "--until-caught-up")[0] == 0
    found, expected = stored.outputs(["store", "folder"])
    assert len(found) == 250
    assert found == expected
