"""Where the time of a shape goes: Python sampled by py-spy, the JVM by Java Flight Recorder, folded into one picture.

    python -m tests.bench profile      (JOB=stream-table ROWS=500000 by default; `make profile JOB=count` is the same)

Writes collapsed stacks to build/profile-JOB.txt, a line a stack with its number of samples of 10 ms; flamegraph.pl,
inferno and speedscope.app draw them. Prints the share of each kind of process and the busiest functions. The JVM's own
threads (compiler, garbage collector), of which the recorder takes no stacks, count with their processor time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.bench.measure import descendants
from tests.bench.shapes import SHAPES, rows_in

JOB = os.environ.get("JOB", "stream-table")
_HERTZ = 100
_OWN_THREADS = {"C1 ": "compiler", "C2 ": "compiler", "GC ": "garbage collector", "G1 ": "garbage collector"}
_BUSIEST = 25
_DEPTH = 64


def main() -> None:
    """Record, fold, write and print; does nothing where a recorder is missing."""
    spy, recorder = Path(sys.executable).with_name("py-spy"), shutil.which("jfr")
    if not spy.exists() or recorder is None:
        print("  left out: it needs py-spy (the extra dev) and the command jfr of a JDK")
        return
    if JOB not in SHAPES:
        raise SystemExit(f"no shape called {JOB}; there are: {', '.join(SHAPES)}")
    with tempfile.TemporaryDirectory(prefix="kestrel-profile-") as name:
        folder = Path(name)
        rows_in(folder)
        stacks = _recorded(spy, recorder, folder)
    out = Path("build") / f"profile-{JOB}.txt"
    out.parent.mkdir(exist_ok=True)
    out.write_text("".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items())), encoding="utf-8")
    _show(stacks)
    print(f"  the stacks are in {out}")


def _recorded(spy: Path, recorder: str, folder: Path) -> Counter[str]:
    """Run the shape twice, and record the second run."""
    flights, python = folder / "jvm.jfr", folder / "python.txt"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.shapes", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    _run(process)
    jvm = next(each for each in descendants(process.pid) if _command(each) == "java")
    own = _own_threads(jvm)
    settings = ["name=bench", "settings=profile", f"filename={flights}"]
    subprocess.run(["jcmd", str(jvm), "JFR.start", *settings], check=True, stdout=subprocess.DEVNULL)
    arguments = ["record", "--subprocesses", "--format", "raw", "--rate", str(_HERTZ), "--output", str(python)]
    sampler = subprocess.Popen([str(spy), *arguments, "--pid", str(process.pid)], stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    _run(process)
    subprocess.run(["jcmd", str(jvm), "JFR.stop", "name=bench"], check=True, stdout=subprocess.DEVNULL)
    stacks = Counter({f"jvm;{name}": ticks for name, ticks in (_own_threads(jvm) - own).items()})
    assert process.stdin
    process.stdin.close()
    _, complaint = sampler.communicate()
    process.wait()
    if not python.exists():
        raise SystemExit(f"py-spy recorded nothing: {complaint[-500:]}")
    for line in python.read_text(encoding="utf-8").splitlines():
        stack, _, count = line.rpartition(" ")
        stacks[";".join(["python", *_named(stack)])] += int(count)
    stacks.update(_java(recorder, flights))
    return stacks


def _named(stack: str) -> list[str]:
    """The frames of a Python stack below "driver" or "worker".

    py-spy puts all processes above a stack, by number, which would keep the workers apart.
    """
    frames = stack.split(";")
    own = max((at for at, frame in enumerate(frames) if frame.startswith("process ")), default=-1)
    return ["driver" if own < 0 or "tests.bench" in frames[own] else "worker", *frames[own + 1 :]]


def _run(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    assert process.stdout
    print(JOB, file=process.stdin, flush=True)
    if not any(line.startswith("{") for line in process.stdout):
        raise SystemExit(f"{JOB} failed")


def _command(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
    return ""


def _own_threads(jvm: int) -> Counter[str]:
    """The processor time of the JVM's own threads, in samples."""
    found: Counter[str] = Counter()
    for stat in Path(f"/proc/{jvm}/task").glob("*/stat"):
        with suppress(OSError):
            head, _, fields = stat.read_text(encoding="utf-8").rpartition(")")
            kind = next((kind for start, kind in _OWN_THREADS.items() if head.partition("(")[2].startswith(start)), "")
            ticks = sum(map(int, fields.split()[11:13]))
            found[kind] += ticks * _HERTZ // os.sysconf("SC_CLK_TCK")
    del found[""]
    return found


def _java(recorder: str, flights: Path) -> Iterator[str]:
    """The stacks of the JVM's samples, the outermost frame first."""
    command = [recorder, "print", "--json", "--stack-depth", str(_DEPTH), "--events", "jdk.ExecutionSample"]
    printed = subprocess.run([*command, str(flights)], check=True, capture_output=True, text=True)
    for event in json.loads(printed.stdout)["recording"]["events"]:
        frames = (event["values"]["stackTrace"] or {}).get("frames", [])
        methods = [frame["method"] for frame in reversed(frames)]
        yield ";".join(["jvm", *(f"{each['type']['name']}.{each['name']}".replace("/", ".") for each in methods)])


def _show(stacks: Counter[str]) -> None:
    total = stacks.total()
    kinds: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for stack, count in stacks.items():
        first, *frames = stack.split(";")
        kinds[f"{first}: {frames[0]}" if first == "python" or len(frames) == 1 else first] += count
        functions[f"{first:7} {frames[-1] if frames else ''}"] += count
    print(f"  {JOB}: {total / _HERTZ:.1f} s of samples")
    for title, found in (("share", kinds.most_common()), ("function", functions.most_common(_BUSIEST))):
        print(f"  by {title}:")
        for name, count in found:
            print(f"    {count / total:6.1%}  {name[-100:]}")
