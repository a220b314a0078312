"""Cases a second of `qtt run`, and what its processor time is spent on.

    python -m tests.bench corpus                       (ksqlDB's cases, stored plans and REST cases, where they are)
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
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.measure import machine, processor_seconds, seconds_by_owner
from tests.bench.tables import write_table

CASES, ROUNDS = os.environ.get("CASES", "").split(), int(os.environ.get("ROUNDS", "1"))
COMMAND, KEEP = os.environ.get("COMMAND", "run").split(), os.environ.get("KEEP")
_KSQLDB = Path(__file__).parents[3] / "shared" / "ksqldb"
_OPTIONS = ("--cold", "--group-size", "120", "--tolerant-errors")
_LOOK_S = 0.25


_CORPORA = (
    ("ksqlDB's cases", ("run",), "query-validation-tests", 25),
    ("ksqlDB's stored plans", ("plans", "run"), "historic-plans", 30),
    ("ksqlDB's REST cases", ("run",), "rest-query-validation-tests", 10),
)
"""What is run, by which command, its folder, and how many a second are the goal."""


def main() -> None:
    """Measure and print."""
    if CASES:
        for _ in range(ROUNDS):
            _measure(COMMAND, CASES)
        return
    rows = []
    for name, command, folder, goal in _CORPORA:
        path = _KSQLDB / folder
        if not path.is_dir():
            print(f"  left out: {path} is absent")
            continue
        count, seconds, worked = _measure(command, [str(path)])
        rate = count / seconds
        outcome = f"{goal}, {'reached' if rate >= goal else 'missed'}"
        rows.append([name, f"{count:,}", f"{rate:.1f}", f"{worked:.0f} s", outcome])
    write_table("corpora", ["What", "Number", "A second", "Processor time", "Goal"], rows)


def _measure(command: Sequence[str], cases: Sequence[str]) -> tuple[int, float, float]:
    """Run cases; returns their number, the seconds of the run, and its processor seconds."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(KEEP or Path(folder) / "results.json")
        words = [str(Path(sys.executable).with_name("qtt")), *command, *_OPTIONS, "--json", str(results), *cases]
        began, worked, owners = time.monotonic(), 0.0, dict[str, float]()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            worked, owners = max(worked, processor_seconds(process.pid)), _most(owners, seconds_by_owner(process.pid))
            time.sleep(_LOOK_S)
        seconds = time.monotonic() - began
        count = len(json.loads(results.read_text(encoding="utf-8"))["cases"])
    spent = ", ".join(f"{name} {each:.1f}" for name, each in sorted(owners.items(), key=lambda pair: -pair[1]))
    print(f"  {' '.join(cases)}: {count} cases in {seconds:.1f} s, {count / seconds:.1f} a second, {machine()}")
    print(f"    {worked:.1f} s of processor time: {spent}", flush=True)
    return count, seconds, worked


def _most(seen: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """The most of each owner: at the end the JVM and the workers are gone."""
    return {name: max(seen.get(name, 0.0), now.get(name, 0.0)) for name in {*seen, *now}}
