"""The command `qtt mutate`: find the changes of statements that no case notices."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console

from kestrel_qtt.cases.counts import count_of
from kestrel_qtt.cases.model import Case
from kestrel_qtt.cases.selection import SelectionError
from kestrel_qtt.cli.run import (
    ExitCode,
    OpenDriver,
    add_carrier,
    add_command,
    add_selection,
    load_cases_of_script,
    plain_console,
    progress,
    report_errors,
    selected,
)
from kestrel_qtt.report.html import Finding, write_findings
from kestrel_qtt.variants.mutation import Mutation, Tried, mutate


def add_mutate(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt mutate`."""
    command = add_command(
        commands,
        "mutate",
        "find changes of the statements that no case notices",
        examples,
        mutate_command,
        (
            "Change one detail of a statement at a time (an operator, a bound, an aggregate, a kind of join, a window, "
            "a literal …), run the cases against each mutant, and list the mutants that no case kills. PATH is a case "
            "file, a folder of them, or the script of an application, whose cases are searched below this folder."
        ),
    )
    add_selection(command)
    add_carrier(command, "process")
    command.add_argument("--since", metavar="REV", help="only statements that changed since this git revision")
    command.add_argument("--json", type=Path, metavar="FILE", help="write all mutants, and what became of each")
    command.add_argument("--html", type=Path, metavar="DIR", help="write the mutants to look at: DIR/mutation.html")
    command.add_argument(
        "--fail-under", type=float, default=100.0, metavar="PERCENT", help="exit with 1 below this score (default: 100)"
    )


def mutate_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """Run the mutants, print the survivors and the score, and write the report."""
    loaded = load_cases_of_script(arguments)
    cases = [case for case in selected(loaded, arguments) if case.has_records]
    if not cases:
        raise SelectionError("no case with expected records is selected; `qtt mutate` needs cases that pass")
    out, tell = plain_console(), progress()
    with closing(open_driver()) as engine:
        result = mutate(cases, engine, _wanted(arguments.since), tell)
    _print(result, out)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(_document(result), indent=1) + "\n", encoding="utf-8")
    if arguments.html is not None:
        file = write_findings(
            arguments.html / "mutation.html",
            "Mutants",
            "survivors",
            _summary(result),
            list(map(_finding, result.tried)),
        )
        out.print(f"report: {file}")
    if result.failing or 100 * result.score < arguments.fail_under:
        return ExitCode.FAILURES
    return report_errors(loaded)


def _wanted(revision: str | None) -> Callable[[Path, str], bool]:
    """Return a test of whether a statement is not in the given revision of its file; without revision, of nothing."""
    if revision is None:
        return lambda file, text: True
    older: dict[Path, str] = {}

    def changed(file: Path, text: str) -> bool:
        if file not in older:
            older[file] = _at_revision(file, revision)
        return " ".join(text.split()) not in older[file]

    return changed


def _at_revision(file: Path, revision: str) -> str:
    """Return the text of a file at a revision, white space reduced; empty if the file did not exist.

    Raises:
        SelectionError: git does not know the revision, or the file is in no repository.
    """
    git = ["git", "-C", str(file.resolve().parent)]
    known = subprocess.run([*git, "rev-parse", "--verify", "-q", f"{revision}^{{commit}}"], capture_output=True)
    if known.returncode:
        raise SelectionError(f"--since {revision}: git does not know this revision of {file}")
    shown = subprocess.run([*git, "show", f"{revision}:./{file.name}"], capture_output=True, text=True)
    return " ".join(shown.stdout.split()) if shown.returncode == 0 else ""


def _print(result: Mutation, out: Console) -> None:
    for case, reason in result.failing:
        out.print(f"left out, because it fails without a mutant: {case.id}\n{reason}\n")
    for each in result.survivors:
        out.print(f"{each.place}: survives {_count(each)}")
        for line in each.mutant.diff.splitlines():
            style = "red" if line.startswith("-") else "green"
            out.print(f"    {line}", style=style)
    out.print(_summary(result))


def _summary(result: Mutation) -> str:
    refused = sum(bool(each.refused) for each in result.tried)
    killed = len(result.tried) - len(result.survivors) - refused
    return (
        f"{len(result.tried)} mutants: {killed} killed, {refused} refused by the planner, "
        f"{len(result.survivors)} survived; score {100 * result.score:.0f} % "
        f"({result.equal} more have the plan of the original)"
    )


def _finding(each: Tried) -> Finding:
    if each.refused:
        text = f"refused by the planner: {each.refused}"
    else:
        text = f"killed by {each.killed_by}" if each.killed_by else f"survives {_count(each)}"
    return Finding(each.place, text, each.is_killed, each.mutant.diff)


def _count(each: Tried) -> str:
    return count_of(len(each.cases), "case")


def _document(result: Mutation) -> dict[str, object]:
    return {
        "score": round(100 * result.score, 1),
        "equal": result.equal,
        "failing": [case.id for case, _ in result.failing],
        "mutants": [_mutant(each) for each in result.tried],
    }


def _mutant(each: Tried) -> dict[str, object]:
    cases: Sequence[Case] = each.cases
    return {
        "file": str(each.file),
        "line": each.mutant.span.line,
        "column": each.mutant.span.column,
        "place": each.place,
        "diff": each.mutant.diff,
        "killed_by": each.killed_by or None,
        "refused": each.refused or None,
        "cases": [case.id for case in cases],
    }
