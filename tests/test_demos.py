"""What `make demo`, `make demo-kafka`, `make demo-server` and `make demo-takeover` show is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo import first_steps, shared
from tests.kafka import demo_takeover
from tests.kafka.ksqldb import needs_ksqldb


@pytest.mark.spark
def test_the_demo_shows_a_slip(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first_steps(tmp_path / "orders", shared())
    said = capfd.readouterr().out
    assert "CREATE STREAM" in said
    assert re.search(r"\b[12] passed, [12] failed", said)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("module", "last"),
    [
        pytest.param("tests.kafka.demo", "every output is there once and in order", marks=pytest.mark.nightly),
        ("tests.engine.server.demo", "/ui"),
    ],
)
def test_a_demo_on_a_broker_ends_well(module: str, last: str, root: Path) -> None:
    _ends_well(module, last, root)


@pytest.mark.spark
@pytest.mark.nightly
def test_the_demo_of_a_take_over_ends_well(root: Path) -> None:
    needs_ksqldb()
    _ends_well("tests.kafka.demo_takeover", "both together wrote what the undisturbed ksqlDB wrote", root)


def test_the_demo_of_a_take_over_needs_ksqldb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_takeover, "COMMAND", tmp_path / "server.sh")
    assert demo_takeover.main() == 0
    assert "there is no server of ksqlDB to take over from" in capsys.readouterr().out


def _ends_well(module: str, last: str, root: Path) -> None:
    command, own = [sys.executable, "-m", module], {**os.environ}
    own.pop("KESTREL_KAFKA", None)
    done = subprocess.run(
        command, cwd=root, env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    assert done.stdout.rstrip().endswith(last)
