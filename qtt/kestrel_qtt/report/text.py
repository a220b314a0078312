"""Report a run: its progress, a text summary, and the JSON report."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from rich.console import Console
from rich.text import Text

from kestrel_qtt.cases.counts import count_of
from kestrel_qtt.cases.model import CLASS_PREFIX, Result, Status

_LINE_EVERY = 10.0
_TOGETHER = 0.1
"""How many seconds are between the ends of two groups at least."""

_FIRST = "the first ones run"
"""What the progress bar says until a case ends."""

_T = TypeVar("_T")


class Summary(msgspec.Struct, frozen=True):
    """The counts of a run; `seconds` is wall time.

    `classes` counts those that passed although their spec holds in part only, `loose` those that do not compare
    everything, `carriers` those that each carrier ran.
    """

    passed: int
    failed: int
    errors: int
    skipped: int
    seconds: float
    classes: Mapping[str, int] = {}
    loose: int = 0
    carriers: Mapping[str, int] = {}

    @property
    def cases_per_second(self) -> float:
        """How many cases were judged in a second, known gaps included."""
        count = self.passed + self.failed + self.errors + self.skipped
        return round(count / self.seconds, 2) if self.seconds > 0 else 0.0

    @property
    def is_success(self) -> bool:
        """Say whether nothing failed."""
        return not (self.failed or self.errors)

    def __str__(self) -> str:
        counts = [f"{self.passed} passed"]
        counts += [f"{self.failed} failed"] if self.failed else []
        counts += [
            count_of(number, what) for number, what in ((self.errors, "error"), (self.skipped, "known gap")) if number
        ]
        text = f"{', '.join(counts)} in {self.seconds:.1f} s ({self.cases_per_second:g} cases a second)"
        if self.carriers:
            text += f" on {carriers_text(self.carriers)}"
        if self.loose:
            text += f"\nof those that passed, {self.loose} with `ignore`, `unordered` or `tolerance`"
        if self.classes:
            named = ", ".join(f"{n} {name}" for name, n in sorted(self.classes.items()))
            text += f"\nof those that passed, by class: {named}"
        return text


def carriers_text(carriers: Mapping[str, int]) -> str:
    """Name the carriers of a run, with the number of cases of each if there are several."""
    return " and ".join(f"{name} ({number})" if len(carriers) > 1 else name for name, number in carriers.items())


def summarise(results: Iterable[Result], seconds: float) -> Summary:
    """Count the results of a run that took `seconds`."""
    known = list(results)
    counts = Counter(result.status for result in known)
    reasons = (
        result.reason.removeprefix(CLASS_PREFIX) for result in known if result.status is Status.PASSED and result.reason
    )
    classes = Counter(name for reason in reasons for name in reason.split(", "))
    passed, failed, errors, skipped = (
        counts[status] for status in (Status.PASSED, Status.FAILED, Status.ERROR, Status.SKIPPED)
    )
    loose = sum(result.status is Status.PASSED and bool(str(result.case.matching)) for result in known)
    carriers = Counter(result.carrier for result in known if result.carrier)
    return Summary(passed, failed, errors, skipped, round(seconds, 3), dict(classes), loose, dict(carriers))


def write_report(path: Path, results: Sequence[Result], summary: Summary) -> None:
    """Write the JSON report of DESIGN.md section 3."""
    document = {
        "summary": {
            "passed": summary.passed,
            "failed": summary.failed,
            "errors": summary.errors,
            "skipped": summary.skipped,
            "seconds": summary.seconds,
            "cases_per_second": summary.cases_per_second,
            "carriers": dict(summary.carriers),
            **({"classes": dict(summary.classes)} if summary.classes else {}),
        },
        "cases": [
            {
                "id": result.case.id,
                "file": result.case.file.as_posix(),
                "name": result.case.name,
                "format": result.case.format,
                "rules": list(result.case.rules),
                "status": result.status.value,
                "seconds": round(result.seconds, 4),
                "reason": result.reason,
                "carrier": result.carrier,
                **({"compared": str(result.case.matching)} if str(result.case.matching) else {}),
            }
            for result in results
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def reason_text(result: Result) -> str:
    """Say where a case is, which rules it proves and why it did not pass."""
    rules = f" (rules {', '.join(result.case.rules)})" if result.case.rules else ""
    return f"{result.case.file}:{result.case.line}: {result.case.name}{rules}\n{result.reason}"


def failure_text(result: Result) -> str:
    """Say which case did not pass, where it is, and why."""
    indented = "\n".join(f"  {line}" for line in reason_text(result).splitlines())
    return f"{result.status.upper()} {result.case.id}\n{indented}"


def gap_text(result: Result) -> str:
    """Describe the known gap of a case that does not pass."""
    return f"{result.case.id}: {result.reason}"


def watched(results: Iterator[_T], total: int, console: Console) -> Iterator[_T]:
    """Pass what is said of each case through, and show progress: on a terminal at once, elsewhere every ten seconds."""
    if console.is_terminal:
        yield from _with_bar(results, total, console)
        return
    started = shown = last = time.perf_counter()
    for done, result in enumerate(results):
        now = time.perf_counter()
        gap, last = now - last, now
        # The cases of a group end together: what is told, when the first one does, is where those before it stood.
        if done and gap >= _TOGETHER and now - shown >= _LINE_EVERY:
            shown = now
            left = (now - started) / done * (total - done)
            console.print(
                f"{done}/{total} cases, {done / (now - started):.1f} a second, about {_span(left)} left",
                highlight=False,
            )
        yield result


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _with_bar(results: Iterator[_T], total: int, console: Console) -> Iterator[_T]:
    # Takes long to import, and most runs have no terminal.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    # Rich would also print to this console what goes to a standard output that is a file.
    progress = Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty())
    task = progress.add_task("cases", total=total, rate=_FIRST)
    started = time.perf_counter()
    with progress:
        for done, result in enumerate(results, start=1):
            rate = done / (time.perf_counter() - started)
            progress.update(task, completed=done, rate=f"{rate:.1f} cases a second")
            yield result


_HEADER = re.compile(r"^ *column +(?P<expected>expected +)actual$")
_LONG = re.compile(r"^ +(?P<word>expected|actual)  ")
_HEAD = re.compile(r"^(FAILED|ERROR|PASSED) ")
_CARET = re.compile(r"^ *\^+$")
_STYLES = {"expected": "green", "actual": "red"}


def coloured(text: str) -> Text:
    """Style the lines of a failure; a console that is no terminal prints them plain."""
    shown = Text()
    columns: tuple[int, int] | None = None
    for line in text.splitlines(keepends=True):
        styled, bare = Text(line), line.rstrip("\n")
        header = _HEADER.match(bare)
        if header:
            columns = header.start("expected"), header.end("expected")
            styled.stylize("dim")
        elif columns is not None and _is_row(bare, columns):
            styled.stylize("green", *columns)
            styled.stylize("red", columns[1])
        else:
            columns = None
            _style_line(styled, bare)
        shown.append(styled)
    return shown


def _is_row(line: str, columns: tuple[int, int]) -> bool:
    """Say whether a line has cells where the header has them."""
    return len(line) > columns[1] and line[columns[0] - 1] == " " and line[columns[0]] != " "


def _style_line(styled: Text, line: str) -> None:
    long = _LONG.match(line)
    if long:
        styled.stylize(_STYLES[long["word"]])
    elif _HEAD.match(line):
        styled.stylize("bold green" if line.startswith("PASSED") else "bold red", 0, line.index(" "))
    elif _CARET.match(line):
        styled.stylize("red")
    elif line.lstrip().startswith(("caused by ", "hint: ", "at ")):
        styled.stylize("cyan")
