"""Memory of a run of the tests: the sum over all its processes, every two seconds, and who had it at the peak.

    python -m tests.bench tests_memory         (COMMAND='python -m pytest -n 2' by default, as an environment variable)

Prints the processes at the peak, what each is and its PSS, and the processor seconds of each kind of process. Shared
pages count once. It adopts processes whose parent has ended, so that none is missed; Linux only.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from tests.bench.measure import descendants, machine, own_seconds
from tests.bench.memory import own_mebibytes

COMMAND = os.environ.get("COMMAND", f"{sys.executable} -m pytest -n 2")
INTERVAL_S = 2.0
_ADOPT_ORPHANS = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux."""

_KINDS = {
    "org.apache.spark.launcher": "launcher of a JVM",
    "org.apache.spark.deploy.worker": "JVM: Spark worker",
    "org.apache.spark.deploy.master": "JVM: Spark master",
    "org.apache.spark.executor": "JVM: executor",
    "org.apache.spark": "JVM: Spark driver",
    "kafka.Kafka": "JVM: broker",
    "worker_daemon": "Python: Spark's workers",
    "pyspark.daemon": "Python: Spark's own daemon",
    "pyspark": "Python: Spark's workers",
    "import sys;exec(eval(sys.stdin.readline()))": "Python: worker of pytest-xdist",
    "kestrel_sql.cli": "Python: kestrel",
    "bin/kestrel": "Python: kestrel",
    "bin/qtt": "Python: qtt",
    "pytest": "Python: pytest",
}
"""What a process is, by the first of these parts of a command line that it has."""

_HEAP = re.compile(r"-Xmx\S+")


@dataclass(frozen=True, slots=True)
class Process:
    """A process at one moment; `mebibytes` is its PSS."""

    number: int
    kind: str
    heap: str
    mebibytes: float


def kind_of(command: str) -> str:
    """What the process of a command line is."""
    return next((kind for part, kind in _KINDS.items() if part in command), "other")


def seen(number: int) -> Process:
    """Look at one process; one that has ended has no memory."""
    try:
        command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        command = ""
    heap = _HEAP.findall(command)
    return Process(number, kind_of(command), heap[-1] if heap else "", own_mebibytes(number))


def all_of(moment: list[Process]) -> float:
    """The MiB of all processes of a moment."""
    return sum(each.mebibytes for each in moment)


def reap(command: int) -> None:
    """Wait for adopted processes until the command has ended: tests wait until such a process is gone."""
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)) and ended.si_pid != command:
        os.waitpid(ended.si_pid, 0)


def watched(running: subprocess.Popen[bytes]) -> tuple[list[Process], Mapping[str, float]]:
    """Return the processes at the peak, and the processor seconds of each kind, when the command has ended."""
    peak: list[Process] = []
    seconds: dict[tuple[int, str], float] = {}
    own = os.getpid()
    ends = Thread(target=reap, args=(running.pid,))
    ends.start()
    while ends.is_alive():
        moment = [seen(number) for number in descendants(own) if number != own]
        seconds |= {(each.number, each.kind): own_seconds(each.number) for each in moment if each.mebibytes}
        peak = max(peak, moment, key=all_of)
        ends.join(INTERVAL_S)
    sums: dict[str, float] = defaultdict(float)
    for (_, kind), taken in seconds.items():
        sums[kind] += taken
    return peak, sums


def main() -> None:
    """Measure and print."""
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1)
    print(f"{COMMAND}, {machine()}")
    began = time.monotonic()
    running = subprocess.Popen(shlex.split(COMMAND))
    peak, seconds = watched(running)
    running.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"ended with {running.returncode} after {time.monotonic() - began:.0f} s")
    print(f"peak: {all_of(peak):6,.0f} MiB in {len(peak)} processes")
    for each in sorted(peak, key=lambda process: -process.mebibytes):
        print(f"{each.mebibytes:12,.0f}  {each.kind} {each.heap}")
    print(f"processor: {used.ru_utime + used.ru_stime:6,.0f} s, by kind of process, without those of few seconds:")
    for kind, taken in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"{taken:12,.0f}  {kind}")
