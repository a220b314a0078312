"""Cases on a real broker: those of several partitions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from engine.kafka.config import KafkaConfig

pytestmark = pytest.mark.spark


def test_cases_pass_on_the_broker_and_leave_no_topic(root: Path, kafka: KafkaConfig, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    # A process of its own: Spark takes its connector along only when it starts.
    command = [sys.executable, "-m", "qtt.cli", "run", "tests/kafka/cases"]
    done = subprocess.run(
        [*command, "--kafka", kafka.servers, "--json", str(report)], cwd=root, capture_output=True, text=True, check=False
    )
    summary = json.loads(report.read_text(encoding="utf-8"))["summary"]
    assert summary["failed"] + summary["errors"] == 0, done.stdout
    assert summary["passed"] > 40
    left = AdminClient(kafka.client()).list_topics(timeout=30).topics
    assert not [name for name in left if name.startswith("qtt-")]
