"""Tests that killing the driver of a run whose checkpoint is on a store leaves the output of an undisturbed run."""

from __future__ import annotations

import logging
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.connector.store import open_store_alone
from tests.kafka.processes import ending, kill
from tests.kafka.scenario import ALL, Scenario, compare
from tests.kafka.stores import KINDS, store_of

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

KILLS = int(os.environ.get("KESTREL_STORE_KILLS", "20"))
"""The number of kills; each hits the queries of all five shapes."""

ROWS_PER_KILL, WAIT_S = 60, 900

log = logging.getLogger(__name__)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_drivers_on_a_store_lose_nothing_and_repeat_nothing(
    kind: str, kafka: KafkaConfig, spark: SparkSession, tmp_path: Path
) -> None:
    rows, moment = max(10, KILLS) * ROWS_PER_KILL, int(time.time()) * 1000
    scenario = Scenario(kafka.servers, f"stores{time.time_ns()}", tmp_path, rows, moment)
    scenario.produce()
    scenario.finish("quiet", spark)
    expected, random_, hit = scenario.outputs("quiet"), random.Random(KILLS), Counter[str]()
    with on_store(scenario, kind) as there:
        for number in range(KILLS):
            with ending(there.start("run", "--batch-records", "30")) as process:
                there.await_write("run", process, ALL[number % len(ALL)], seconds=WAIT_S)
                time.sleep(random_.uniform(0, 0.5))
                kill(process, whole=number % 2 == 0)
            hit.update(begun := there.begun_sinks("run"))
            log.info("%s: kill %d in batches of %s", kind, number + 1, " ".join(sorted(begun)))
        with ending(there.start("run", "--until-caught-up", "--batch-records", "100000")) as process:
            assert process.wait(WAIT_S) == 0, there.said("run")
    found = compare(scenario.outputs("run"), expected)
    said = "%s: %d records, %d lost, %d twice, %d keys out of order; kills in a batch of each sink: %s"
    log.info(said, kind, found.records, found.lost, found.twice, found.disordered, dict(hit))
    assert not found.flaws
    assert {*hit} == {*ALL} or 2 * len(ALL) > KILLS, "a shape was never hit in a batch"


@contextmanager
def on_store(scenario: Scenario, kind: str) -> Iterator[Scenario]:
    """The scenario with its checkpoints on a store."""
    with store_of(kind, scenario.folder) as way, open_store_alone(f"{way.uri}/kills", way.settings) as root:
        yield replace(scenario, store=root / scenario.name, settings=way.settings)
