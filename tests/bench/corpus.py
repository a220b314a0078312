"""Cases a second of `qtt run`, and what its processor time is spent on.

    CASES=test-cases ROUNDS=1 python -m tests.bench corpus

`CASES` are files or folders; COMMAND="plans run" runs stored plans, and KEEP=FILE keeps the report of the run. The start
of Spark is included, and no JVM of an earlier run is used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.bench.measure import machine, processor_seconds, seconds_by_owner

CASES, ROUNDS = os.environ.get("CASES", "test-cases").split(), int(os.environ.get("ROUNDS", "1"))
COMMAND, KEEP = os.environ.get("COMMAND", "run").split(), os.environ.get("KEEP")
_OPTIONS = ("--cold", "--group-size", "120", "--tolerant-errors")
_LOOK_S = 0.25


def main() -> None:
    """Measure and print."""
    print(f"{' '.join(CASES)}, {machine()}")
    for turn in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            _measure(Path(KEEP or Path(folder) / "results.json"), turn)


def _measure(results: Path, turn: int) -> None:
    command = [str(Path(sys.executable).with_name("qtt")), *COMMAND, *_OPTIONS, "--json", str(results), *CASES]
    began, worked, owners = time.monotonic(), 0.0, dict[str, float]()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        worked, owners = max(worked, processor_seconds(process.pid)), _most(owners, seconds_by_owner(process.pid))
        time.sleep(_LOOK_S)
    seconds = time.monotonic() - began
    cases = len(json.loads(results.read_text(encoding="utf-8"))["cases"])
    spent = ", ".join(f"{name} {each:.1f}" for name, each in sorted(owners.items(), key=lambda pair: -pair[1]))
    print(f"  round {turn + 1}: {cases} cases in {seconds:.1f} s, {cases / seconds:.1f} a second")
    print(f"    {worked:.1f} s of processor time: {spent}")


def _most(seen: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """The most of each owner: at the end the JVM and the workers are gone."""
    return {name: max(seen.get(name, 0.0), now.get(name, 0.0)) for name in {*seen, *now}}
