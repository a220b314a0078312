"""The command `qtt coverage`: how many cases reach each rule, function, step and format."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from kestrel_qtt.cases.counts import count_of
from kestrel_qtt.cli.run import (
    ExitCode,
    OpenDriver,
    add_carrier,
    add_command,
    add_loading,
    load_cases,
    load_cases_of_script,
    plain_console,
    progress,
    report_errors,
)
from kestrel_qtt.report.html import Finding, write_findings

_Counts = Mapping[str, Mapping[str, tuple[str, ...]]]
_WIDTH = 90


def add_coverage(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt coverage`."""
    text = "count the cases that reach each rule, function, step and format"
    command = add_command(commands, "coverage", text, examples, coverage_command)
    command.add_argument(
        "paths", nargs="*", type=Path, default=[Path("test-cases")], metavar="PATH", help="default: test-cases"
    )
    add_loading(command)
    add_carrier(command, "process")
    command.add_argument(
        "--branches",
        action="store_true",
        help="branches of the statements instead: conditions, CASE, joins, windows, tombstones, errors; PATH may be the"
        " script of an application",
    )
    command.add_argument(
        "--html", type=Path, metavar="DIR", help="with --branches: write them to look at: DIR/coverage.html"
    )
    command.add_argument("--missing", action="store_true", help="only what no case and no test reaches")
    command.add_argument("--json", type=Path, metavar="FILE", help="write the ids of the cases and tests")
    command.add_argument(
        "--spec", type=Path, default=Path("docs/spec"), metavar="FOLDER", help="the pages that hold the rules"
    )
    command.add_argument(
        "--tests", type=Path, default=Path("tests"), metavar="FOLDER", help="where tests are marked with rules"
    )
    command.add_argument(
        "--plans", type=Path, default=Path("historic-plans"), metavar="FOLDER", help="where plans are kept"
    )


def coverage_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """Print the counts, and write the report."""
    from kestrel_qtt.coverage.reach import reach
    from kestrel_qtt.coverage.rules import marked_tests, read_rules

    if arguments.branches:
        return _branches(arguments, open_driver)
    loaded = load_cases(arguments)
    rules = read_rules(arguments.spec)
    reached = reach(loaded.cases, arguments.plans, rules.values())
    tests = marked_tests(arguments.tests)
    cases = {
        "rules": reached.rules,
        "functions": reached.functions,
        "steps": reached.steps,
        "formats": reached.formats,
    }
    _print(cases, tests, {rule.id: rule.text for rule in rules.values()}, only_missing=arguments.missing)
    if arguments.json is not None:
        document = {**cases, "tests": {rule: tests.get(rule, ()) for rule in rules}}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return report_errors(loaded)


def _branches(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """Print the branches of statements, each with the number of cases that reach it."""
    from kestrel_qtt.variants.branches import cover

    loaded = load_cases_of_script(arguments)
    cases = [case for case in loaded.cases if case.has_records]
    with closing(open_driver()) as engine:
        result = cover(cases, engine, progress())
    out = plain_console()
    for failing in result.failing:
        out.print(f"left out: {failing}")
    findings = [
        Finding(each.place, f"{each.name}: {each.text}: {_cases(len(each.cases))}", bool(each.cases))
        for each in result.branches
    ]
    for each in findings:
        if not (each.is_good and arguments.missing):
            style = None if each.is_good else "yellow"
            out.print(f"{each.place}: {each.text}", style=style)
    summary = f"{result.reached} of {len(result.branches)} branches are reached"
    out.print(summary, highlight=False)
    if arguments.html is not None:
        file = write_findings(arguments.html / "coverage.html", "Branches", "not reached", summary, findings)
        out.print(f"report: {file}")
    if arguments.json is not None:
        document = [
            {
                "place": each.place,
                "statement": each.name,
                "branch": each.text,
                "cases": each.cases,
            }
            for each in result.branches
        ]
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return report_errors(loaded)


def _cases(count: int) -> str:
    return count_of(count, "case") if count else "not reached"


def _print(
    cases: _Counts, tests: Mapping[str, tuple[str, ...]], texts: Mapping[str, str], *, only_missing: bool
) -> None:
    out = plain_console()
    for kind, reached in cases.items():
        marked = tests if kind == "rules" else {}
        missing = [name for name, ids in reached.items() if not ids and not marked.get(name)]
        out.print(f"{kind}: {len(reached) - len(missing)} of {len(reached)}")
        for name in missing if only_missing else reached:
            counts = f"{len(reached[name]):>6}" + (f"{len(marked.get(name, ())):>6}" if kind == "rules" else "")
            out.print(f"{counts}  {name}  {_short(texts.get(name, ''))}".rstrip())


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
