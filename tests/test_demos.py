"""What `make demo`, `make demo-kafka` and `make demo-server` show is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo import first_steps, shared


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
    command, own = [sys.executable, "-m", module], {**os.environ}
    own.pop("KESTREL_KAFKA", None)
    done = subprocess.run(
        command, cwd=root, env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    assert done.stdout.rstrip().endswith(last)
