"""Tests that an older release refuses state that it cannot read, with the wheel built from its commit."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from tests.environments import ROOT
from tests.fuzz.earlier import ONLY_IT_NEEDS, TAG
from tests.kafka.applications import Applications
from tests.kafka.helpers import create, environment, produce, read

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

APP = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
CREATE STREAM F WITH (KAFKA_TOPIC='{0}_f') AS SELECT * FROM S WHERE V > 0;
CREATE TABLE T WITH (KAFKA_TOPIC='{0}_t') AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;
"""
WAIT_S = 600


def installed(commit: str, folder: Path) -> Path:
    """Build the wheel of a commit and install it; but for a few, its dependencies are those of this environment."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "engine", "qtt", "pyproject.toml", "README.md"],
        capture_output=True,
        check=False,
    )
    if packed.returncode:
        pytest.skip(f"the history of this clone has no commit {commit[:8]}: {packed.stderr.decode().strip()}")
    source, target = folder / "source", folder / "installed"
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(source, filter="data")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, *ONLY_IT_NEEDS], check=True)
    subprocess.run([*pip, "--no-build-isolation", "--no-index", str(source)], check=True)
    return target


def test_a_former_release_refuses_newer_state_and_writes_nothing(applications: Applications, tmp_path: Path) -> None:
    former = installed(TAG, tmp_path)
    name, servers, checkpoint = f"older_{time.time_ns()}", applications.config.servers, tmp_path / "checkpoint"
    create(servers, 1, f"{name}_s")
    # The broker compacts old records at once.
    now = int(time.time() * 1000)
    produce(servers, f"{name}_s", [(f"k{at % 5}", '{"V": 1}', now + at) for at in range(20)])
    run = applications.catch_up(APP.format(name), checkpoint)
    assert run.well, run.text
    before, files = read(servers, f"{name}_t", 1), contents(checkpoint)
    produce(servers, f"{name}_s", [("k1", '{"V": 1}', now + 20)])
    (tmp_path / "app.sql").write_text(APP.format(name), encoding="utf-8")
    command = [str(former / "bin" / "kestrel"), "run", str(tmp_path / "app.sql"), "--bootstrap-servers", servers]
    done = subprocess.run(
        [*command, "--checkpoint", str(checkpoint), "--until-caught-up"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        env={**environment(), "PYTHONPATH": str(former)},
    )
    said = " ".join(done.stderr.split())
    assert done.returncode == 1, said
    assert "another release wrote" in said, said
    assert read(servers, f"{name}_t", 1) == before
    assert contents(checkpoint) == files
    again = applications.catch_up(APP.format(name), checkpoint)
    assert again.well, again.text
    assert len(read(servers, f"{name}_t", 1)) == len(before) + 1


def contents(checkpoint: Path) -> dict[str, bytes]:
    """The files of a checkpoint, but for the lock and the manifest's count of starts."""
    return {
        str(file.relative_to(checkpoint)): file.read_bytes()
        for file in sorted(checkpoint.rglob("*"))
        if file.is_file() and file.parent != checkpoint
    }
