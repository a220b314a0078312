"""The command `qtt review`: show each difference of a case, and accept the actual record as the expected one."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from kestrel_qtt.cases.edit import Entry, edit_outputs
from kestrel_qtt.cases.model import Case, CaseFileError, Outcome, OutputRecord, Produced, Status
from kestrel_qtt.cases.raw import JsonPath, TextError
from kestrel_qtt.cli.approve import fill_in, is_open, propose
from kestrel_qtt.cli.run import (
    ExitCode,
    OpenDriver,
    add_command,
    add_selection,
    load_cases,
    report_errors,
    selection_of,
)
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.judge.compare import Absent
from kestrel_qtt.judge.diff import Comparison, RecordDifference, difference_text, topic_differences
from kestrel_qtt.judge.json_text import write_json
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.judge.record_json import record_json
from kestrel_qtt.load import load
from kestrel_qtt.options import RUN_OPTIONS
from kestrel_qtt.report.colour import coloured
from kestrel_qtt.report.text import failure_text
from kestrel_qtt.runner import run_group

QUESTION = "[a]ccept, [s]kip, [e]dit, [q]uit? "
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


class QuitError(Exception):
    """The user wants to stop."""


@dataclass(slots=True)
class Review:
    """Asks about each difference; `ask` gets a question and returns the answer, or raises EOFError."""

    out: Console
    ask: Callable[[str], str]
    accepted: int = 0
    skipped: int = 0
    left: list[str] = field(default_factory=list)

    def review(self, case: Case, outcome: Outcome) -> None:
        """Ask about a case that failed or states no outputs.

        Raises:
            QuitError: the user wants to stop; what was accepted of this case is written.
        """
        if not isinstance(outcome, Produced):
            self.out.print(coloured(failure_text(judge(case, outcome))))
            self._decide(case, may_accept=False)
        elif is_open(case):
            self._open(case, outcome)
        else:
            self._differences(case, outcome)

    def _open(self, case: Case, outcome: Outcome) -> None:
        (proposal,) = propose([(case, outcome)])
        records = "\n".join(f"  {record}" for record in proposal.records) or "  no record"
        self.out.print(f"{case.id} leaves its outputs out; it wrote\n{records}", markup=False, highlight=False)
        if self._decide(case):
            fill_in(case.file, [proposal])

    def _differences(self, case: Case, outcome: Produced) -> None:
        found = list(_found(case, outcome))
        if not found:
            self.out.print(coloured(failure_text(judge(case, outcome))))
            self._decide(case, may_accept=False)
            return
        self.out.print(f"{case.id} ({case.file}:{case.line})", markup=False, highlight=False)
        accepted: list[RecordDifference] = []
        try:
            for each in found:
                self.out.print(coloured(difference_text(each, case.file)))
                if self._decide(case, each.expected):
                    accepted.append(each)
        finally:
            if accepted:
                write(case, accepted)

    def _decide(self, case: Case, expected: OutputRecord | None = None, *, may_accept: bool = True) -> bool:
        """Ask until there is an answer, and say whether the difference is accepted."""
        question = QUESTION if may_accept else QUESTION.replace("[a]ccept, ", "")
        while True:
            try:
                answer = self.ask(question).strip().lower()[:1]
            except EOFError as error:
                raise QuitError from error
            if answer == "a" and may_accept:
                self.accepted += 1
                return True
            if answer == "s":
                self.skipped += 1
                return False
            if answer == "e":
                line = expected.line if expected is not None and expected.line else case.line
                open_editor(case.file, line)
                self.left.append(case.id)
                return False
            if answer == "q":
                raise QuitError


def open_editor(file: Path, line: int) -> None:
    """Open the user's editor at a line, and wait for its end."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    subprocess.run([*shlex.split(editor), f"+{line}", str(file)], check=False)


def _found(case: Case, outcome: Produced) -> Iterator[RecordDifference]:
    """The differences of all topics, those that no output names among them."""
    internal = {topic.name for topic in outcome.topics if topic.internal}
    outputs = case.outputs or ()
    topics = dict.fromkeys([*(r.topic for r in outputs), *(t for t in outcome.records if t not in internal)])
    for topic in topics:
        expected = [record for record in outputs if record.topic == topic]
        yield from topic_differences(topic, expected, outcome.records.get(topic, ()), Comparison.of(case))


def write(case: Case, accepted: Sequence[RecordDifference]) -> None:
    """Write the accepted records into the file of the case.

    Raises:
        CaseFileError: the file would not read back; it stays as it was.
    """
    before = case.file.read_bytes().decode("utf-8")
    name = _name_in_file(case)
    try:
        after = edit_outputs(before, case.file.suffix == ".json", name, entries_of(case, accepted))
    except TextError as error:
        raise CaseFileError(case.file, case.line, error.message) from error
    case.file.write_bytes(after.encode("utf-8"))
    broken = load(case.file).errors
    if broken:
        case.file.write_bytes(before.encode("utf-8"))
        raise broken[0]


def _name_in_file(case: Case) -> str:
    """The name as the file has it: without the file's own name before it and the variant behind it."""
    name = case.name.removeprefix(f"{case.file.stem} - ")
    for part in (case.config, case.format):
        name = name if part is None else name.removesuffix(f" - {part}")
    return name


def entries_of(case: Case, accepted: Sequence[RecordDifference]) -> list[Entry]:
    """The outputs of a case with the accepted differences."""
    outputs = case.outputs or ()
    places = {id(record): index for index, record in enumerate(outputs)}
    entries: list[Entry] = [Entry(index) for index in range(len(outputs))]
    for each in accepted:
        at = (
            None
            if each.expected is None
            else next(n for n, entry in enumerate(entries) if entry.index == places[id(each.expected)])
        )
        if at is not None and each.actual is None:
            del entries[at]
        elif at is not None and each.actual is not None and each.moved_to is None:
            entries[at] = _changed(entries[at].index or 0, each)
        elif each.actual is not None:
            moved = None if at is None else entries.pop(at)
            new = moved or Entry(text=record_json(each.topic, each.actual))
            after = None if each.after is None else places[id(each.after)]
            entries.insert(_behind(entries, outputs, each.topic, after), new)
    return entries


def _behind(entries: Sequence[Entry], outputs: Sequence[OutputRecord], topic: str, after: int | None) -> int:
    """Where a new record goes: behind the record `after`, else before the first of its topic, else to the end."""
    for at, entry in enumerate(entries):
        if entry.index is None:
            continue
        if after is not None and entry.index == after:
            behind = at + 1
            while behind < len(entries) and entries[behind].index is None:
                behind += 1
            return behind
        if after is None and outputs[entry.index].topic == topic:
            return at
    return len(entries)


def _changed(index: int, each: RecordDifference) -> Entry:
    """The record with its differing values replaced, or as a whole where a field comes or goes."""
    paths = [_path(difference.column) for difference in each.columns]
    simple = all(
        not isinstance(d.expected, Absent) and not isinstance(d.actual, Absent) and path is not None
        for d, path in zip(each.columns, paths, strict=True)
    )
    given = each.expected
    if (
        not simple
        or given is None
        or each.actual is None
        or any(d.column in ("window", "headers") for d in each.columns)
    ):
        return Entry(text=record_json(each.topic, each.actual)) if each.actual is not None else Entry(index)
    changes = [
        (path, write_json(d.actual))
        for d, path in zip(each.columns, paths, strict=True)
        if path is not None and not isinstance(d.actual, Absent)
    ]
    return Entry(index, changes=tuple(changes))


def _path(column: str) -> JsonPath | None:
    """The path of a column such as `value.ITEMS[0]`; None for a name that cannot be told from a path."""
    steps = _STEP.findall(column)
    if "".join(f"[{number}]" if number else f".{name}" for name, number in steps).lstrip(".") != column:
        return None
    return [int(number) if number else name for name, number in steps]


def add_review(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt review`."""
    text = "walk through the differences of cases, and accept what was written"
    command = add_command(commands, "review", text, examples)
    add_selection(command)
    command.add_argument("--cold", **RUN_OPTIONS["cold"])


def review_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt review`: run the cases, and ask about each difference."""
    out = Console(soft_wrap=True)
    if not sys.stdin.isatty():
        Console(stderr=True).print("qtt: review asks questions and needs a terminal; `qtt approve` is for scripts")
        return ExitCode.USAGE
    loaded = load_cases(arguments)
    cases = [case for case in selection_of(arguments).of(loaded.cases) if not case.tolerant]
    engine = open_driver()
    try:
        outcomes = [(case, outcome) for case, outcome, _ in run_group(cases, engine, RunOptions())]
    finally:
        engine.close()
    review = Review(out, input)
    failed = [(c, o) for c, o in outcomes if judge(c, o).status is not Status.PASSED]
    try:
        for case, outcome in _one_variant_each(failed):
            review.review(case, outcome)
    except QuitError:
        out.print("left early; what was accepted is written")
    out.print(f"{len(failed)} of {len(cases)} cases differ: {review.accepted} accepted, {review.skipped} skipped")
    return max(report_errors(loaded), ExitCode.FAILURES if len(failed) and review.skipped else ExitCode.OK)


def _one_variant_each(outcomes: Sequence[tuple[Case, Outcome]]) -> Iterator[tuple[Case, Outcome]]:
    """The first variant of each case: all of them share the outputs."""
    seen: set[tuple[Path, int]] = set()
    for case, outcome in outcomes:
        if (case.file, case.line) not in seen:
            seen.add((case.file, case.line))
            yield case, outcome
