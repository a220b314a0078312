"""Cases on a real broker: a quarter of those of several partitions, and one of every eighth file.

Nightly, one in five of all cases.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrel_qtt.cases.model import Status
from kestrel_qtt.cli.main import main
from kestrel_qtt.drivers.driver import Driver
from kestrel_qtt.drivers.open import open_kafka_driver
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.spread import ALL, IN_CI, PARTITIONS, ROOT, Spread, results_of, run

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def driver(kafka: KafkaConfig) -> Iterator[Driver]:
    opened = open_kafka_driver(kafka.servers)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def is_here(request: pytest.FixtureRequest) -> None:
    spread = getattr(request.node, "callspec", None) and request.node.callspec.params.get("spread")
    if isinstance(spread, Spread) and not spread.is_here:
        pytest.skip(f"there is no {spread.path}")


@pytest.mark.parametrize("spread", IN_CI, ids=lambda spread: spread.path.name)
def test_cases_pass_on_the_broker_and_leave_nothing_there(spread: Spread, driver: Driver, kafka: KafkaConfig) -> None:
    results = results_of(spread, driver)
    assert [f"{r.case.id}: {r.reason}" for r in results if r.status in (Status.FAILED, Status.ERROR)] == []
    assert sum(result.status is Status.PASSED for result in results) > 12
    assert left_on(kafka) == []


@pytest.mark.nightly
@pytest.mark.parametrize("spread", ALL, ids=lambda spread: spread.path.name)
def test_one_case_in_five_passes_by_the_command(spread: Spread, kafka: KafkaConfig, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = run(spread, kafka.servers, report)
    assert done.returncode == 0, json.loads(report.read_text(encoding="utf-8"))["summary"]
    assert left_on(kafka) == []


def test_a_broker_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("kestrel_qtt.drivers.kafka.scratch_topics._CONNECT_S", 0.5)
    assert main(["run", str(ROOT / PARTITIONS), "--kafka", "127.0.0.1:1"]) == 2
    assert "127.0.0.1:1" in capsys.readouterr().err


def left_on(kafka: KafkaConfig) -> list[str]:
    """The topics and consumer groups of cases that are still there, once the broker has had time to forget them."""
    admin, end = admin_client(kafka), time.monotonic() + 30
    while True:
        groups = (group.group_id for group in admin.list_consumer_groups().result().valid)
        left = [name for name in (*admin.list_topics(timeout=30).topics, *groups) if name.startswith("qtt-")]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.5)
