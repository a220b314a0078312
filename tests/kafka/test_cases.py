"""Cases on a real broker: those of several partitions, and one of every fourth file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.spread import IN_CI, Spread, run

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("spread", IN_CI, ids=lambda spread: spread.path.name)
def test_cases_pass_on_the_broker_and_leave_nothing_there(spread: Spread, kafka: KafkaConfig, tmp_path: Path) -> None:
    if not spread.is_here:
        pytest.skip(f"there is no {spread.path}")
    report = tmp_path / "report.json"
    done = run(spread, kafka.servers, report)
    summary = json.loads(report.read_text(encoding="utf-8"))["summary"]
    assert done.returncode == 0, summary
    assert summary["passed"] > 30
    admin = admin_client(kafka)
    left = [
        *admin.list_topics(timeout=30).topics,
        *(group.group_id for group in admin.list_consumer_groups().result().valid),
    ]
    assert not [name for name in left if name.startswith("qtt-")]


def test_a_broker_that_is_away_is_named(tmp_path: Path) -> None:
    done = run(IN_CI[0], "127.0.0.1:1", tmp_path / "report.json", ["-k", "copy"])
    assert done.returncode == 2
