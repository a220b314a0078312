"""How long the author of a case waits for `qtt run`, on a JVM that it starts and on one that the run before left.

    python -m tests.bench loop                  (ROUNDS=3 by default, as an environment variable)

Each run is a process of its own, as a shell starts it. Beside the seconds stand those that processors worked: for the
run's own process, for the JVM, and for its Python workers. They depend less on what else the machine does.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measure import machine, processor_seconds

ROUNDS = int(os.environ.get("ROUNDS", "3"))
ROOT = Path(__file__).resolve().parents[2]
QTT = str(Path(sys.executable).with_name("qtt"))

CASES: Mapping[str, Sequence[str]] = {
    "stateless": ("test-cases/functions/abs.yaml", "-k", "bounds"),
    "stateful": ("test-cases/aggregates/group-by.json", "-k", "makes and AVRO"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """The seconds that a run took, and those that processors worked for it."""

    seconds: float
    own: float
    jvm: float
    workers: float


def main() -> None:
    """Print the seconds of each kind of run."""
    print(f"{machine()}, {ROUNDS} rounds, medians")
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
    runs: dict[str, list[Run]] = {"new JVM": [], "kept JVM": []}
    for _ in range(ROUNDS):
        _qtt(["warm", "--stop"], variables)
        for way in runs:
            runs[way].append(_run(chosen, variables))
    for way, taken in runs.items():
        seconds, own, jvm, workers = (
            statistics.median(getattr(run, part) for run in taken) for part in ("seconds", "own", "jvm", "workers")
        )
        print(
            f"  {name:10} {way:9} {seconds:6.2f} s   processors {own + jvm + workers:6.2f} s:"
            f" run {own:5.2f}, JVM {jvm:5.2f}, workers {workers:5.2f}"
        )


def _run(chosen: Sequence[str], variables: Mapping[str, str]) -> Run:
    before, own, started = _kept(variables), _children_seconds(), time.perf_counter()
    _qtt(["run", *chosen], variables)
    seconds, own = time.perf_counter() - started, _children_seconds() - own
    after = _kept(variables)
    if after is None:
        raise RuntimeError("the run left no JVM")
    process, jvm, workers = after
    same = before if before is not None and before[0] == process else (process, 0.0, 0.0)
    return Run(seconds, own, jvm - same[1], workers - same[2])


def _kept(variables: Mapping[str, str]) -> tuple[int, float, float] | None:
    """The id of the JVM that is kept, and the processor seconds of it and of its workers."""
    found = re.match(r"JVM (\d+)", _qtt(["warm"], variables))
    if found is None:
        return None
    process = int(found[1])
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    own = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return process, own, processor_seconds(process) - own


def _qtt(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
    done = subprocess.run([QTT, *arguments], cwd=ROOT, env=dict(variables), check=True, capture_output=True, text=True)
    return done.stdout


def _import_seconds(variables: Mapping[str, str]) -> float:
    """Return the processor seconds of the imports of `qtt run` before it opens Spark, without Python's own."""
    code = (
        "import time; a = time.process_time(); import kestrel_qtt.cli.main, kestrel_qtt.drivers.full;"
        " print(time.process_time() - a)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=dict(variables), check=True, capture_output=True, text=True
    )
    return float(run.stdout)


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
