"""Tests a run on a standalone cluster of processes while one of its workers is frozen, cut off or decommissioned.

The test of a network that is cut needs the right to change the kernel's packet filter (iptables).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.connector.store import open_store_alone
from tests.kafka.cluster import end, options, standalone_cluster
from tests.kafka.helpers import spark_options
from tests.kafka.processes import ending, executors
from tests.kafka.s3 import S3
from tests.kafka.scenario import ALL, Scenario, differences

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

FREEZE_S, LOST_S, WAIT_S = 60, 20, 600
ROWS = 2000
GROUP = 54_321
"""The group of users of the first worker, by which the packet filter knows what it sends."""

SOON = {
    "spark.network.timeout": f"{LOST_S}s",
    "spark.network.timeoutInterval": f"{LOST_S // 4}s",
    "spark.executor.heartbeatInterval": f"{LOST_S // 4}s",
}
"""Spark gives an executor up after 20 s without a word from it."""

Worker = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Incident:
    """What happens to a worker; `settings` are those of the run."""

    happens: Callable[[Worker, Callable[[], None]], None]
    settings: Mapping[str, str]


def freeze(worker: Worker, progress: Callable[[], None]) -> None:
    """Stop a worker and its executor for a time that Spark waits for."""
    os.killpg(worker.pid, signal.SIGSTOP)
    time.sleep(FREEZE_S)
    os.killpg(worker.pid, signal.SIGCONT)


def silence(worker: Worker, progress: Callable[[], None]) -> None:
    """Stop a worker and its executor until Spark has given them up and all queries went on; then let them come back."""
    os.killpg(worker.pid, signal.SIGSTOP)
    time.sleep(LOST_S)
    progress()
    os.killpg(worker.pid, signal.SIGCONT)


def cut_off(worker: Worker, progress: Callable[[], None]) -> None:
    """Drop all that a worker and its executor send, until Spark has given them up and all queries went on."""
    with dropping(GROUP):
        time.sleep(LOST_S)
        progress()


@contextmanager
def dropping(group: int) -> Iterator[None]:
    """Let the kernel drop what processes of a group of users send, as if their machine had no network."""
    rule = ["OUTPUT", "-m", "owner", "--gid-owner", str(group), "-j", "DROP"]
    if shutil.which("iptables") is None:
        pytest.skip("no iptables: apt-get install iptables")
    if subprocess.run(["iptables", "-A", *rule], capture_output=True, check=False).returncode:
        pytest.skip("this user may not change the packet filter")
    try:
        yield
    finally:
        subprocess.run(["iptables", "-D", *rule], check=True)


def decommission(worker: Worker, progress: Callable[[], None]) -> None:
    """Ask a worker to go, as the machine of a cloud does that is to be taken away; wait until its executor is gone."""
    worker.send_signal(signal.SIGPWR)
    deadline = time.monotonic() + WAIT_S
    while executors(worker):
        assert time.monotonic() < deadline, "the executor does not go"
        time.sleep(0.5)
    end(worker)


INCIDENTS = {
    "frozen": Incident(freeze, {}),
    "silent": Incident(silence, SOON),
    "cut off": Incident(cut_off, SOON),
    "decommissioned": Incident(decommission, {"spark.decommission.enabled": "true"}),
}


@pytest.mark.parametrize("name", INCIDENTS)
def test_a_run_outlives_a_worker_that_is(
    name: str, kafka: KafkaConfig, spark: SparkSession, s3: S3, tmp_path: Path
) -> None:
    scenario = Scenario(kafka.servers, f"alone{time.time_ns()}", tmp_path, ROWS, int(time.time()) * 1000)
    scenario.produce()
    scenario.finish("quiet", spark)
    expected, incident = scenario.outputs("quiet"), INCIDENTS[name]
    with ExitStack() as stack:
        cluster = stack.enter_context(
            standalone_cluster(tmp_path / "cluster", group=GROUP if name == "cut off" else None)
        )
        root = stack.enter_context(open_store_alone("s3a://bucket", s3.settings))
        there = replace(scenario, store=root / scenario.name)
        given = [*options(cluster.url, s3.settings), "--batch-records", "100"]
        given += spark_options(incident.settings)
        process = stack.enter_context(ending(there.start("run", *given)))

        def progress() -> None:
            for sink in ALL:
                there.await_write("run", process, sink, seconds=WAIT_S)

        progress()
        incident.happens(cluster.workers[0], progress)
        there.await_outputs("run", process, expected, seconds=WAIT_S)
        process.terminate()
        assert process.wait(WAIT_S) == 0, there.said("run")
        assert "Starting" not in there.said("run")
    assert differences(scenario.outputs("run"), expected) == []
