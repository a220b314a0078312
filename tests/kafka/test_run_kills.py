"""Tests that killing any process at any time leaves the output of an undisturbed run, once and in order."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.cli.main import ExitCode
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.applications import Applications
from tests.kafka.helpers import spark_options
from tests.kafka.processes import ReturningBroker, end, ending, kill, signal_all, workers
from tests.kafka.scenario import ALL, FEW, Outputs, Scenario, compare
from tests.kafka.secured import files_with_secrets, start_secured, tls_properties

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("KESTREL_KILLS", "200"))
"""The number of kills of the driver in the long test."""
MORE = 2
"""The number of further kills if too few of the others hit a commit."""

ROWS_PER_KILL = 60
ROWS = 20 * ROWS_PER_KILL
SEEDS = (1, 2, 3)
AHEAD_S = 60

log = logging.getLogger(__name__)

Undisturbed = Callable[[int, Sequence[str]], tuple[Scenario, Outputs]]


@pytest.fixture(scope="module")
def undisturbed(kafka: KafkaConfig, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Returns a scenario with a number of rows per topic and some sinks, and its output in an undisturbed run."""

    @cache
    def get(rows: int, sinks: Sequence[str] = ALL) -> tuple[Scenario, Outputs]:
        folder = tmp_path_factory.mktemp("kills")
        scenario = Scenario(kafka.servers, f"kills{time.time_ns()}", folder, rows, int(time.time()) * 1000, sinks)
        scenario.produce()
        scenario.finish("quiet", spark)
        return scenario, scenario.outputs("quiet")

    return get


def test_a_run_over_tls_outlives_whatever_dies_and_nothing_else_writes_beside_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker, secured = start_secured(tmp_path, lambda more: ReturningBroker(tmp_path / "data", more))
    properties, events = tls_properties(tmp_path / "client.properties", secured), tmp_path / "events"
    events.mkdir()
    options = ["--bootstrap-servers", secured.tls, "--kafka-config", str(properties)]
    options += spark_options({"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()})
    with broker:
        scenario = Scenario(broker.address, "kills", tmp_path, ROWS, int(time.time()) * 1000, FEW)
        scenario.produce()
        scenario.finish("quiet", spark)
        expected, blows = scenario.outputs("quiet"), Blows(scenario, "run", spark, random.Random(1))
        with running(scenario, "run", *options) as process:
            # What shows that every query continues without the broker shows it for the worker, too.
            blows.kill_workers(process, 1)
            blows.kill_broker(process, broker)
            blows.suspend_between_commits(process)
            blows.supersede(process, expected)
    assert any(path.stat().st_size for path in events.rglob("*") if path.is_file())
    assert files_with_secrets(events, tmp_path / "run", tmp_path / "run.log") == []


@pytest.mark.nightly
def test_killed_drivers_lose_nothing_and_repeat_nothing(undisturbed: Undisturbed, spark: SparkSession) -> None:
    scenario, expected = undisturbed(max(ROWS, KILLS * ROWS_PER_KILL), ALL)
    random_, hit, number = random.Random(KILLS), Counter[str](), 0
    while number < KILLS or (hit["ahead"] < max(1, KILLS // 4) and number < KILLS + MORE):
        with running(scenario, "driver") as process:
            await_moment(scenario, process, number, random_)
            kill(process, whole=number % 2 == 0)
        begun, ahead = scenario.begun("driver"), scenario.ahead("driver")
        hit.update(begun=begun, ahead=ahead)
        number += 1
        log.info("kill %d: %d batches were begun, %d of them written in whole or in part", number, begun, ahead)
    scenario.finish("driver", spark)
    assert same(scenario, "driver", expected)
    assert hit["begun"] >= KILLS // 2, "too few of the kills hit a batch"
    assert hit["ahead"] >= max(1, KILLS // 4), "too few of the kills hit a batch that was written and not noted"


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
def test_killed_workers_lose_nothing_and_repeat_nothing(
    undisturbed: Undisturbed, spark: SparkSession, seed: int
) -> None:
    scenario, expected = undisturbed(ROWS, ALL)
    name = f"worker{seed}"
    with running(scenario, name) as process:
        blows = Blows(scenario, name, spark, random.Random(seed))
        blows.kill_workers(process, 8)
        blows.all_go_on(process)
        assert ends_well(process), scenario.said(name)
    scenario.finish(name, spark)
    assert same(scenario, name, expected)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_broker_that_comes_back_loses_nothing_and_repeats_nothing(
    undisturbed: Undisturbed, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    scenario, expected = undisturbed(ROWS, ALL)
    with moved(scenario, tmp_path) as (there, broker):
        with running(there, "broker") as process:
            for _ in range(3):
                Blows(there, "broker", spark, random.Random(seed)).kill_broker(process, broker, 5)
            assert ends_well(process), there.said("broker")
        there.finish("broker", spark)
        assert same(there, "broker", expected)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
def test_a_zombie_commits_nothing(undisturbed: Undisturbed, spark: SparkSession, seed: int) -> None:
    scenario, expected = undisturbed(ROWS, ALL)
    name, random_ = f"zombie{seed}", random.Random(seed)
    with running(scenario, name) as process:
        scenario.await_batch(name, process, *scenario.sinks)
        time.sleep(random_.uniform(0, 2))
        Blows(scenario, name, spark, random_).supersede(process, expected)
    scenario.finish(name, spark)
    assert same(scenario, name, expected)


def running(scenario: Scenario, run_name: str, *options: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return ending(scenario.start(run_name, "--batch-records", "30", *options))


def await_moment(scenario: Scenario, process: subprocess.Popen[bytes], number: int, random_: random.Random) -> None:
    """Wait for the moment of a kill: during the start, in a batch, or near the commit of a transaction."""
    match number % 4:
        case 0:
            time.sleep(random_.uniform(0.5, 6))
        case 1:
            scenario.await_batch("driver", process)
            time.sleep(random_.uniform(0, 1))
        case 2:
            scenario.await_write("driver", process, *scenario.sinks)
            time.sleep(random_.uniform(0, 0.3))
        case _:
            scenario.await_write("driver", process, scenario.sinks[number % len(scenario.sinks)])
            time.sleep(random_.uniform(0, 0.05))


def same(scenario: Scenario, run_name: str, expected: Outputs) -> bool:
    """Whether a run wrote the expected output; prints the number of records compared."""
    found = compare(scenario.outputs(run_name), expected)
    log.info(
        "%s: %d records, %d lost, %d twice, %d keys out of order",
        run_name,
        found.records,
        found.lost,
        found.twice,
        found.disordered,
    )
    for flaw in found.flaws:
        log.error(flaw)
    return not found.flaws


def ends_well(process: subprocess.Popen[bytes]) -> bool:
    process.send_signal(signal.SIGTERM)
    return process.wait(60) == 0


@contextmanager
def moved(scenario: Scenario, folder: Path) -> Iterator[tuple[Scenario, ReturningBroker]]:
    """The same input on a broker that can be killed."""
    with ReturningBroker(folder / "broker") as broker:
        there = replace(scenario, servers=broker.address, folder=folder)
        there.produce()
        yield there, broker


@dataclass(frozen=True, slots=True)
class Blows:
    """Incidents of a run."""

    scenario: Scenario
    run_name: str
    spark: SparkSession
    random: random.Random

    def suspend_between_commits(self, process: subprocess.Popen[bytes]) -> None:
        """Suspend a run when the broker has committed a batch that Spark's checkpoint has not."""
        deadline = time.monotonic() + AHEAD_S
        while True:
            self.scenario.await_write(self.run_name, process, *self.scenario.sinks)
            signal_all(process, signal.SIGSTOP)
            if self.scenario.ahead(self.run_name):
                break
            assert time.monotonic() < deadline, "no batch is seen between its two commits"
            signal_all(process, signal.SIGCONT)
        log.info("the run is suspended between its two commits")

    def kill_workers(self, process: subprocess.Popen[bytes], count: int) -> None:
        """Kill one worker after the other in a batch."""
        while count:
            self.scenario.await_batch(self.run_name, process)
            time.sleep(self.random.uniform(0, 0.5))
            victims = workers(process)
            count -= bool(victims) and end(self.random.choice(victims))
        log.info("workers were killed")

    def kill_broker(
        self, process: subprocess.Popen[bytes], broker: ReturningBroker, seconds: float | None = None
    ) -> None:
        """Kill the broker, restart it, and check that every query continues.

        It is away for some seconds, or until the run says that it waits for it.
        """
        scenario, name = self.scenario, self.run_name
        scenario.await_batch(name, process)
        time.sleep(self.random.uniform(0, 1))
        broker.kill()
        if seconds is None:
            scenario.await_said(name, process, "; waiting for it up to ", since=0)
        else:
            time.sleep(seconds)
        broker.restart()
        log.info("the broker is back")
        if seconds is None:
            scenario.await_said(name, process, " answers again", since=0)
        self.all_go_on(process)

    def supersede(self, process: subprocess.Popen[bytes], expected: Outputs) -> None:
        """Suspend a run, start another one, and wake the first when the second is done."""
        scenario, name = self.scenario, self.run_name
        signal_all(process, signal.SIGSTOP)
        applications = Applications(self.spark, KafkaConfig(servers=scenario.servers))
        second = applications.catch_up(scenario.text(name), scenario.folder / name)
        assert "in use by another kestrel run" in second.text
        # What a shared folder does that has lost touch with the first.
        (scenario.checkpoint(name) / "lock").unlink()
        assert scenario.begun(name) > 0, "the first has nothing left to commit"
        scenario.finish(name, self.spark)
        assert same(scenario, name, expected)
        log.info("another run took over")
        signal_all(process, signal.SIGCONT)
        # It was in the midst of a batch, which is done.
        scenario.await_said(name, process, "trying again", " failed: ")
        # A terminal tells all processes of the command.
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) in (ExitCode.OK, ExitCode.REFUSED), scenario.said(name)
        assert same(scenario, name, expected)

    def all_go_on(self, process: subprocess.Popen[bytes]) -> None:
        """Check that every query continues."""
        # The first batch may have been on its way.
        for _ in range(2):
            self.scenario.await_batch(self.run_name, process, *self.scenario.sinks)
        log.info("all queries go on")
