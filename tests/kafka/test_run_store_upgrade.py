"""Tests that the stored checkpoints of all layouts and operators resume on S3 and on HDFS."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kestrel_qtt.cases.model import Status
from kestrel_qtt.plans.checkpoints import find
from tests.kafka.helpers import environment
from tests.kafka.stored_states import STORE
from tests.kafka.stores import KINDS, store_of

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

WAIT_S = 1800


@pytest.mark.parametrize("kind", KINDS)
def test_stored_checkpoints_resume_on(kind: str, tmp_path: Path) -> None:
    with store_of(kind, tmp_path) as way:
        given = ["=".join(setting) for setting in way.settings.items()]
        # A process of its own: a JVM loads the jars of a store only when it starts.
        command = [sys.executable, "-m", "tests.kafka.stored_states", f"{way.uri}/stored", *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each for each in results if each["status"] != Status.PASSED.value] == []
    assert len(results) == len(find(STORE))
