"""Tests that the stored checkpoints of all layouts and operators resume on S3 and on HDFS."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from kestrel_qtt.cases.model import Status
from kestrel_qtt.plans.checkpoints import find
from tests.kafka.hdfs import hdfs_cluster
from tests.kafka.helpers import environment
from tests.kafka.s3 import S3
from tests.kafka.stored_states import STORE

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

WAIT_S = 1800


def resumed(uri: str, settings: Mapping[str, str]) -> None:
    """Resume all in a process of its own: a JVM loads the jars of a store only when it starts."""
    given = ["=".join(setting) for setting in settings.items()]
    command = [sys.executable, "-m", "tests.kafka.stored_states", uri, *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each for each in results if each["status"] != Status.PASSED.value] == []
    assert len(results) == len(find(STORE))


def test_stored_checkpoints_resume_on_s3(s3: S3) -> None:
    resumed("s3a://bucket/stored", s3.settings)


def test_stored_checkpoints_resume_on_hdfs(tmp_path: Path) -> None:
    with hdfs_cluster(tmp_path) as uri:
        resumed(f"{uri}/stored", {})
