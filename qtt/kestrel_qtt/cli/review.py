"""The command `qtt review`: show each difference of a case, and accept the actual record as the expected one."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from rich.console import Console

from kestrel_qtt.cases.edit import OUTPUTS, Entry, edit_list
from kestrel_qtt.cases.model import Case, CaseFileError, Json, Outcome, OutputRecord, Produced, Status
from kestrel_qtt.cases.raw import JsonPath, TextError
from kestrel_qtt.cases.read_json import read_json
from kestrel_qtt.cases.read_yaml import read_yaml
from kestrel_qtt.cli.approve import fill_in, is_open, propose
from kestrel_qtt.cli.run import (
    ExitCode,
    OpenDriver,
    add_carrier,
    add_command,
    add_selection,
    load_cases,
    outcomes_of,
    plain_console,
    report_errors,
    selected,
)
from kestrel_qtt.judge.compare import Absent
from kestrel_qtt.judge.diff import Comparison, RecordDifference, difference_text, topic_differences
from kestrel_qtt.judge.json_text import record_json, write_json
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.judge.log_entries import LogDifference, log_differences
from kestrel_qtt.judge.post_conditions import PostDifference, post_differences
from kestrel_qtt.load import load
from kestrel_qtt.report.text import coloured, failure_text

Difference: TypeAlias = RecordDifference | LogDifference | PostDifference

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_LOG: JsonPath = ("log",)
_POST: Mapping[str, JsonPath] = {"sources": ("post", "sources"), "topics": ("post", "topics", "topics")}


def differences_of(case: Case, outcome: Produced) -> Iterator[Difference]:
    """Yield how an outcome differs from what the case expects: records, processing log, final state."""
    if case.outputs is not None:
        yield from _record_differences(case, outcome)
    if case.log is not None:
        yield from log_differences(case.log, outcome.log)
    if case.post is not None:
        yield from post_differences(case.post, outcome.sources, outcome.topics)


def _record_differences(case: Case, outcome: Produced) -> Iterator[RecordDifference]:
    expected = case.outputs_by_topic
    for topic in {**expected, **outcome.compared}:
        written = outcome.records.get(topic, ())
        yield from topic_differences(topic, expected.get(topic, ()), written, Comparison.of(case))


def text_of(difference: Difference, file: Path) -> str:
    """Say what differs, for a case of `file`."""
    return difference_text(difference, file) if isinstance(difference, RecordDifference) else difference.text


def line_of(difference: Difference) -> int | None:
    """Return the line of the record that is expected, if it is known."""
    expected = difference.expected if isinstance(difference, RecordDifference) else None
    return None if expected is None else expected.line


def can_be_accepted(difference: Difference) -> bool:
    """Say whether the file can be changed so that it agrees: which topic names are forbidden is for its author."""
    return not (isinstance(difference, PostDifference) and difference.section == "blacklist")


def write(case: Case, accepted: Sequence[Difference]) -> None:
    """Write the accepted differences into the file of the case.

    Raises:
        CaseFileError: the file would not read back; it stays as it was.
    """
    before = after = case.file.read_bytes().decode("utf-8")
    is_json, name = case.file.suffix == ".json", _name_in_file(case)
    try:
        for path, entries in _edits(case, _members(before, is_json, name), accepted):
            after = edit_list(after, is_json, name, entries, path)
    except TextError as error:
        raise CaseFileError(case.file, case.line, error.message) from error
    case.file.write_bytes(after.encode("utf-8", "backslashreplace"))
    broken = load(case.file).errors
    if broken:
        case.file.write_bytes(before.encode("utf-8"))
        raise broken[0]


def _members(text: str, is_json: bool, name: str) -> Json:
    """The members of a case as its file has them."""
    items = (read_json(text) if is_json else read_yaml(text)).items or ()
    return next((each.data for each in items if isinstance(each.data, dict) and each.data.get("name") == name), None)


def _edits(case: Case, members: Json, accepted: Sequence[Difference]) -> Iterator[tuple[JsonPath, list[Entry]]]:
    """Yield the new elements of each list of the case that changes."""
    if records := [each for each in accepted if isinstance(each, RecordDifference)]:
        yield OUTPUTS, entries_of(case, records)
    if log := [each for each in accepted if isinstance(each, LogDifference)]:
        yield _LOG, _log_entries(len(case.log or ()), log)
    for section, path in _POST.items():
        if post := [each for each in accepted if isinstance(each, PostDifference) and each.section == section]:
            yield path, list(_post_entries(_at(members, path), post))


def _at(members: Json, path: JsonPath) -> list[Json]:
    for step in path:
        members = members.get(str(step)) if isinstance(members, dict) else None
    return members if isinstance(members, list) else []


def _log_entries(count: int, accepted: Sequence[LogDifference]) -> list[Entry]:
    entries = [Entry(index) for index in range(count)]
    for each in accepted:
        if each.expected is None:
            new = {
                name: value
                for name in ("type", "message", "topic", "offset")
                if (value := getattr(each.actual, name)) is not None
            }
            # Behind the entry that was written before it, and behind those that were just inserted there.
            at = 0 if each.after is None else _index(entries, each.after) + 1
            while at < len(entries) and entries[at].index is None:
                at += 1
            entries.insert(at, Entry(text=write_json(new)))
            continue
        at = _index(entries, each.index)
        if each.actual is None:
            del entries[at]
        else:
            changes = tuple(((name,), write_json(getattr(each.actual, name))) for name in each.fields)
            entries[at] = Entry(each.index, changes=changes)
    return entries


def _index(entries: Sequence[Entry], old: int) -> int:
    return next(at for at, entry in enumerate(entries) if entry.index == old)


def _post_entries(given: Sequence[Json], accepted: Sequence[PostDifference]) -> Iterator[Entry]:
    """Yield the expectations that stay; one without fields to change has nothing that it could expect."""
    changed = {each.index: each.fields for each in accepted}
    for index, old in enumerate(given):
        fields = changed.get(index)
        if fields is None:
            yield Entry(index)
        elif fields and isinstance(old, dict):
            new = {each.name: each.value for each in fields}
            if None not in new.values() and new.keys() <= old.keys():
                yield Entry(index, changes=tuple(((name,), write_json(value)) for name, value in new.items()))
            else:
                yield Entry(text=write_json({n: value for n, value in {**old, **new}.items() if value is not None}))


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


QUESTION = "[a]ccept, [s]kip, [e]dit, [q]uit? "


class QuitError(Exception):
    """The user wants to stop."""


class Review(msgspec.Struct):
    """Asks about each difference; `ask` gets a question and returns the answer, or raises EOFError."""

    out: Console
    ask: Callable[[str], str]
    accepted: int = 0
    skipped: int = 0
    edited: int = 0

    def review(self, case: Case, outcome: Outcome) -> None:
        """Ask about a case that failed or states no outputs.

        Raises:
            QuitError: the user wants to stop; what was accepted of this case is written.
        """
        if not isinstance(outcome, Produced):
            self.out.print(coloured(failure_text(judge(case, outcome))))
            self._decide(case, may_accept=False)
        elif is_open(case) and case.post is None and case.log is None:
            self._open(case, outcome)
        else:
            self._differences(case, outcome)

    def _open(self, case: Case, outcome: Outcome) -> None:
        (proposal,) = propose([(case, outcome)])
        records = "\n".join(f"  {record}" for record in proposal.records) or "  no record"
        self.out.print(f"{case.id} leaves its outputs out; it wrote\n{records}")
        if self._decide(case):
            fill_in(case.file, [proposal])

    def _differences(self, case: Case, outcome: Produced) -> None:
        found = list(differences_of(case, outcome))
        if not found:
            self.out.print(coloured(failure_text(judge(case, outcome))))
            self._decide(case, may_accept=False)
            return
        self.out.print(f"{case.id} ({case.file}:{case.line})")
        accepted: list[Difference] = []
        try:
            for each in found:
                self.out.print(coloured(text_of(each, case.file)))
                if self._decide(case, line_of(each), may_accept=can_be_accepted(each)):
                    accepted.append(each)
        finally:
            if accepted:
                write(case, accepted)

    def _decide(self, case: Case, line: int | None = None, *, may_accept: bool = True) -> bool:
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
                open_editor(case.file, line or case.line)
                self.edited += 1
                return False
            if answer == "q":
                raise QuitError


def open_editor(file: Path, line: int) -> None:
    """Open the user's editor at a line, and wait for its end."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    subprocess.run([*shlex.split(editor), f"+{line}", str(file)], check=False)


def add_review(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt review`."""
    text = "walk through the differences of cases, and accept what was written"
    command = add_command(commands, "review", text, examples, review_command)
    add_selection(command)
    add_carrier(command, "spark")


def review_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt review`: run the cases, and ask about each difference."""
    out = plain_console()
    if not sys.stdin.isatty():
        Console(stderr=True).print("qtt: review asks questions and needs a terminal; `qtt approve` is for scripts")
        return ExitCode.USAGE
    loaded = load_cases(arguments)
    cases = [case for case in selected(loaded, arguments) if not case.tolerant]
    outcomes = outcomes_of(cases, open_driver)
    review = Review(out, input)
    failed = [(c, o) for c, o in outcomes if judge(c, o).status is not Status.PASSED]
    try:
        for case, outcome in _one_variant_each(failed):
            review.review(case, outcome)
    except QuitError:
        out.print("left early; what was accepted is written")
    edited = f", {review.edited} edited" if review.edited else ""
    out.print(
        f"{len(failed)} of {len(cases)} cases differ: {review.accepted} accepted, {review.skipped} skipped{edited}"
    )
    return max(report_errors(loaded), ExitCode.FAILURES if len(failed) and review.skipped else ExitCode.OK)


def _one_variant_each(outcomes: Sequence[tuple[Case, Outcome]]) -> Iterator[tuple[Case, Outcome]]:
    """The first variant of each case: all of them share the outputs."""
    seen: set[tuple[Path, int]] = set()
    for case, outcome in outcomes:
        if (case.file, case.line) not in seen:
            seen.add((case.file, case.line))
            yield case, outcome
