"""Whatever is killed, and when: what an independent consumer reads is what an undisturbed run writes, each record once and in order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from engine.kafka.broker import Broker
from engine.kafka.config import KafkaConfig
from tests.kafka.helpers import run
from tests.kafka.processes import end, kill, signal_all, workers
from tests.kafka.scenario import Outputs, Scenario, differences

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

KILLS = "KESTREL_KILLS"
"""The environment variable that says how often the long test kills the driver."""

Undisturbed = Callable[[int], tuple[Scenario, Outputs]]


@pytest.fixture(scope="module")
def undisturbed(kafka: KafkaConfig, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Gives a scenario of so many rows a topic, and what it writes where nothing happens to it."""
    known: dict[int, tuple[Scenario, Outputs]] = {}

    def get(rows: int) -> tuple[Scenario, Outputs]:
        if rows not in known:
            scenario = Scenario(kafka.servers, f"kills{time.time_ns()}", tmp_path_factory.mktemp("kills"), rows, int(time.time()) * 1000)
            scenario.produce()
            scenario.finish("quiet")
            known[rows] = (scenario, scenario.outputs("quiet"))
        return known[rows]

    return get


@contextmanager
def running(scenario: Scenario, run_name: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    process = scenario.start(run_name, *options)
    try:
        yield process
    finally:
        if process.poll() is None:
            kill(process)


def ends_well(process: subprocess.Popen[bytes]) -> bool:
    process.send_signal(signal.SIGTERM)
    return process.wait(60) == 0


@pytest.mark.parametrize("kills", [20, pytest.param(int(os.environ.get(KILLS, "200")), marks=pytest.mark.nightly)])
def test_a_killed_driver_loses_nothing_and_repeats_nothing(undisturbed: Undisturbed, kills: int) -> None:
    scenario, expected = undisturbed(200 * kills)
    random_, amid = random.Random(kills), 0
    for number in range(kills):
        with running(scenario, "driver") as process:
            if number % 5 == 4:
                time.sleep(random_.uniform(1, 6))
            else:
                scenario.await_batch("driver", process)
                time.sleep(random_.uniform(0, 1.2))
            kill(process, whole=number % 2 == 0)
        amid += scenario.is_amid("driver")
    scenario.finish("driver")
    assert differences(scenario.outputs("driver"), expected) == []
    assert amid >= kills // 3, "too few of the kills hit a batch"


def test_a_killed_worker_loses_nothing_and_repeats_nothing(undisturbed: Undisturbed) -> None:
    scenario, expected = undisturbed(4000)
    random_, killed = random.Random(3), 0
    with running(scenario, "worker") as process:
        for _ in range(6):
            scenario.await_batch("worker", process)
            time.sleep(random_.uniform(0, 0.3))
            victims = workers(process)
            killed += end(random_.choice(victims)) if victims else 0
        scenario.await_outputs("worker", process, expected)
        assert ends_well(process), scenario.said("worker")
    assert differences(scenario.outputs("worker"), expected) == []
    assert killed >= 4


def test_a_killed_broker_that_comes_back_loses_nothing_and_repeats_nothing(undisturbed: Undisturbed, tmp_path: Path) -> None:
    scenario, expected = undisturbed(4000)
    broker = Broker.start(data=tmp_path / "broker")
    scenario = replace(scenario, servers=broker.address, folder=tmp_path)
    try:
        scenario.produce()
        with running(scenario, "broker") as process:
            for _ in range(2):
                scenario.await_batch("broker", process)
                time.sleep(0.5)
                broker.kill()
                time.sleep(5)
                broker = Broker.start(int(broker.address.rpartition(":")[2]), tmp_path / "broker")
            scenario.await_outputs("broker", process, expected)
            assert ends_well(process), scenario.said("broker")
        assert differences(scenario.outputs("broker"), expected) == []
    finally:
        broker.kill()


def test_a_second_run_is_refused_and_a_zombie_commits_nothing(undisturbed: Undisturbed) -> None:
    scenario, expected = undisturbed(4000)
    with running(scenario, "zombie") as process:
        for _ in range(3):
            scenario.await_batch("zombie", process)
        signal_all(process, signal.SIGSTOP)
        second = run(scenario.script("zombie"), scenario.servers, scenario.checkpoint("zombie"), "--until-caught-up")
        assert second.returncode == 1
        assert "in use by another kestrel run" in second.stderr
        # What a shared folder does that has lost touch with the first.
        (scenario.checkpoint("zombie") / "lock").unlink()
        scenario.finish("zombie")
        assert differences(scenario.outputs("zombie"), expected) == []
        signal_all(process, signal.SIGCONT)
        time.sleep(10)
        kill(process)
    assert differences(scenario.outputs("zombie"), expected) == []
    scenario.finish("zombie")
    assert differences(scenario.outputs("zombie"), expected) == []
