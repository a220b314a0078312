"""Time two or more ways of the same work, interleaved, so that other work disturbs all of them alike."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa


def interleaved(
    ways: Mapping[str, Callable[[], object]],
    rounds: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Run every way once a round, in turns; return the seconds of each counted round by `clock`."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(warm_up + rounds):
        for name, work in ways.items():
            started = clock()
            work()
            if turn >= warm_up:
                seconds[name].append(clock() - started)
    return seconds


def median_ratio(seconds: Mapping[str, list[float]], way: str, base: str) -> float:
    """Return the median over all rounds of way / base."""
    return statistics.median(a / b for a, b in zip(seconds[way], seconds[base], strict=True))


def print_per_case(seconds: Mapping[str, list[float]], cases: int) -> None:
    """Print the ms per case of each way, and its ratio to the way `hand-written`."""
    for name, taken in seconds.items():
        per_case = sorted(taken)[len(taken) // 2] / cases * 1000
        print(
            f"  {name:14} {per_case:8.1f} ms a case   {median_ratio(seconds, name, 'hand-written'):6.2f} of"
            " hand-written"
        )


def machine() -> str:
    """One line about where this ran."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def descendants(process: int) -> list[int]:
    """Return a process and its descendants."""
    below: list[int] = []
    for thread in _threads(process):
        with suppress(OSError):  # A thread may end meanwhile.
            below += map(int, (thread / "children").read_text().split())
    return [process, *(each for child in below for each in descendants(child))]


def _threads(process: int) -> list[Path]:
    try:
        return [*Path(f"/proc/{process}/task").iterdir()]
    except OSError:  # It has ended meanwhile.
        return []


def processor_seconds(process: int) -> float:
    """Return the processor seconds of a process and its descendants, ended children included."""
    return sum(_ticks(each, 4) for each in descendants(process)) / os.sysconf("SC_CLK_TCK")


ROOT = Path(__file__).parents[2]
"""The folder of the project."""

_OWNERS = {
    "C1 ": "the JVM's compiler",
    "C2 ": "the JVM's compiler",
    "GC ": "the JVM's collector",
    "VM ": "the JVM's collector",
    "Executor task": "Spark's tasks",
    "stream execut": "Spark's planning of batches",
    "dag-scheduler": "Spark's planning of batches",
}
"""The owners of threads of a JVM, by the beginning of their names; Linux keeps 15 letters of a name."""


def seconds_by_owner(process: int) -> Mapping[str, float]:
    """Return the processor seconds of a process and its descendants by what they were spent on.

    A thread that has ended is not counted.
    """
    found: dict[str, float] = defaultdict(float)
    for each in descendants(process):
        python = "Python of the driver" if each == process else "Python workers"
        with suppress(OSError):  # A process or a thread may end meanwhile.
            is_java = Path(f"/proc/{each}/exe").readlink().name == "java"
            for thread in _threads(each):
                name, _, fields = (thread / "stat").read_text().partition("(")[2].rpartition(")")
                owners = (owner for start, owner in _OWNERS.items() if name.startswith(start))
                owner = next(owners, "other threads of the JVM") if is_java else python
                found[owner] += sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return found


def own_seconds(process: int) -> float:
    """Return the processor seconds of a process without its children."""
    return _ticks(process, 2) / os.sysconf("SC_CLK_TCK")


def _ticks(process: int, counters: int) -> int:
    """Sum user and system time, and as the third and fourth counter those of children that have ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # It has ended meanwhile.
        return 0
    return sum(map(int, fields[11 : 11 + counters]))


def columns_of(schema: pa.Schema) -> Mapping[str, str]:
    """Return the columns of Arrow rows with their Spark types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return {field.name: field.dataType.simpleString() for field in from_arrow_schema(schema)}


def ddl(schema: pa.Schema) -> str:
    """Return the schema of Arrow rows as Spark takes it."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns_of(schema).items())
