"""The command `qtt review`: show each difference of a case, and accept the actual record as the expected one."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from kestrel_qtt.cases.model import Case, Outcome, Produced, Status
from kestrel_qtt.cli.accepted import Difference, can_be_accepted, differences_of, line_of, text_of, write
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
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.report.colour import coloured
from kestrel_qtt.report.text import failure_text

QUESTION = "[a]ccept, [s]kip, [e]dit, [q]uit? "


class QuitError(Exception):
    """The user wants to stop."""


@dataclass(slots=True)
class Review:
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
