"""How long the author of a case waits for `qtt run`, with the JVM of the run before and without.

    python -m tests.bench loop                  (ROUNDS=3 by default, as an environment variable)

Each run is a process of its own, as a shell starts it. Beside the seconds stand those that processors worked for the run and what it
started; they depend less on what else the machine does.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.measure import interleaved, machine, median_ratio

ROUNDS = int(os.environ.get("ROUNDS", "3"))
ROOT = Path(__file__).resolve().parents[2]
QTT = str(Path(sys.executable).with_name("qtt"))

CASES: Mapping[str, Sequence[str]] = {
    "stateless": ("test-cases/functions/abs.yaml", "-k", "bounds"),
    "stateful": ("test-cases/aggregates/group-by.json", "-k", "makes and JSON"),
}


def main() -> None:
    """Print the seconds of each kind of run."""
    print(f"{machine()}, {ROUNDS} rounds")
    with tempfile.TemporaryDirectory(prefix="k-") as sockets:
        usual = {name: value for name, value in os.environ.items() if name not in ("CI", "KESTREL_COLD")}
        variables = {**usual, "XDG_RUNTIME_DIR": sockets, "PYTHONDONTWRITEBYTECODE": ""}
        try:
            for name, chosen in CASES.items():
                _compare(name, chosen, variables)
            print(f"  imports {_import_seconds(variables):.2f} s of processor time")
        finally:
            _qtt(["warm", "--stop"], variables)


def _compare(name: str, chosen: Sequence[str], variables: Mapping[str, str]) -> None:
    worked: dict[str, list[float]] = {"warm": [], "cold": []}

    def run(way: str, *options: str) -> None:
        before = _children_seconds()
        _qtt(["run", *chosen, *options], variables)
        worked[way].append(_children_seconds() - before)

    seconds = interleaved({"cold": lambda: run("cold", "--cold"), "warm": lambda: run("warm")}, ROUNDS)
    for way, taken in seconds.items():
        processor = statistics.median(worked[way][-ROUNDS:])
        print(f"  {name:10} {way:5} {statistics.median(taken):6.2f} s   Python of the run {processor:5.2f} s")
    print(f"  {name:10} warm / cold {median_ratio(seconds, 'warm', 'cold'):.2f}")


def _qtt(arguments: Sequence[str], variables: Mapping[str, str]) -> None:
    subprocess.run([QTT, *arguments], cwd=ROOT, env=dict(variables), check=True, stdout=subprocess.DEVNULL)


def _import_seconds(variables: Mapping[str, str]) -> float:
    """The processor seconds of a process that imports what `qtt run` needs before it opens Spark, without those of Python itself."""
    code = "import time; a = time.process_time(); import kestrel_qtt.cli.main, kestrel_qtt.drivers.full; print(time.process_time() - a)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=dict(variables), check=True, capture_output=True, text=True
    )
    return float(run.stdout)


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
