"""The commands `qtt plans …`: the arguments of each, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

from kestrel_qtt.cases.known_gaps import Ledger
from kestrel_qtt.cases.model import Case
from kestrel_qtt.cases.selection import NoCaseError, SelectionError
from kestrel_qtt.cli.run import (
    ExitCode,
    OpenDriver,
    Run,
    add_command,
    add_run_options,
    add_selection,
    known_gaps,
    load_cases,
    plain_console,
    report_errors,
    run_loaded,
    selected,
    selection_of,
)
from kestrel_qtt.coverage.rules import read_rules
from kestrel_qtt.drivers.driver import PlanningDriver
from kestrel_qtt.drivers.functions import check_functions
from kestrel_qtt.load import Loaded
from kestrel_qtt.plan_commands import record as plan_commands
from kestrel_qtt.plan_commands.record import Findings
from kestrel_qtt.plans.store import adopt, find_plans, read_plan


def add_plans(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt plans` and its actions."""
    plans = commands.add_parser("plans", help="keep historic plans: record, check, run")
    actions = plans.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (run, text) in _ACTIONS.items():
        action = add_command(actions, name, text, examples, run)
        add_selection(action)
        action.add_argument(
            "--plans", type=Path, default=Path("historic-plans"), metavar="FOLDER", help="where plans are kept"
        )
        if name == "record":
            action.add_argument(
                "--version",
                metavar="VERSION",
                help="the version of your application, such as 2.1 (default: that of the nearest pyproject.toml,"
                " else the one after the newest stored plan)",
            )
        if name == "run":
            add_run_options(action)
        if name == "amend":
            _add_amend(action)
        if name == "compact":
            action.add_argument("--dry-run", action="store_true", help="remove nothing")
        if name == "checkpoint":
            action.add_argument(
                "--after", type=int, metavar="N", help="take the checkpoint after N inputs (default: half of them)"
            )


def _add_amend(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--reason", required=True, metavar="TEXT", help="why the spec changes; names a rule, such as O9.4"
    )
    oracle = action.add_mutually_exclusive_group()
    oracle.add_argument(
        "--oracle",
        type=Path,
        default=Path("../shared/oracle/oracle.sh"),
        metavar="FILE",
        help="the program of ksqlDB's engine, which has to agree (default: %(default)s)",
    )
    oracle.add_argument(
        "--without-oracle", action="store_true", help="amend without the agreement of ksqlDB's engine; the spec says so"
    )
    oracle.add_argument(
        "--today",
        action="store_true",
        help="keep the records, and write the reason as why the statements mean something else today",
    )
    action.add_argument(
        "--spec",
        type=Path,
        default=Path("docs/spec"),
        metavar="FOLDER",
        help="the pages with the rules (default: %(default)s; without them, any name of a rule will do)",
    )


def _stored(arguments: argparse.Namespace) -> Loaded:
    check_functions(arguments.functions)
    return plan_commands.stored_cases(arguments.paths, arguments.functions, known_gaps(arguments))


def _run(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    return run_loaded(_stored(arguments), arguments, open_driver)


def _record(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    def recorded(cases: list[Case], driver: PlanningDriver, folder: Path, gaps: Ledger) -> Findings:
        return plan_commands.record_plans(cases, driver, folder, arguments.version, gaps)

    return _over_cases(arguments, open_driver, recorded)


def _check(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    return _over_cases(
        arguments, open_driver, lambda cases, driver, folder, _: plan_commands.check_plans(cases, driver, folder)
    )


def _over_cases(
    arguments: argparse.Namespace,
    open_driver: OpenDriver,
    action: Callable[[list[Case], PlanningDriver, Path, Ledger], Findings],
) -> ExitCode:
    loaded = load_cases(arguments)
    cases = selected(loaded, arguments)
    with closing(open_driver()) as engine:
        planned = [case for case in cases if case.expected_exception is None and case.has_records]
        findings = action(planned, engine, arguments.plans, loaded.gaps)
    return max(_told(findings), report_errors(loaded))


def _told(findings: Findings) -> ExitCode:
    """Print what a command has to tell, and say by an exit code whether something is wrong."""
    out = plain_console()
    for message in (*findings.done, *findings.problems):
        out.print(message)
    return ExitCode.FAILURES if findings.problems else ExitCode.OK


def _explain(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    from kestrel_qtt.plan_commands.text import explain_text

    out = plain_console()
    with closing(open_driver()) as engine:
        check_functions(arguments.functions)
        selection, is_empty = selection_of(arguments), True
        for plan in plan_commands.plan_texts(arguments.paths, selection, engine, arguments.functions):
            is_empty = False
            text = explain_text(plan.text, plan.name, plan.functions)
            out.print(f"{plan.name}\n{text}\n")
    if is_empty:
        raise NoCaseError("no case is selected")
    return ExitCode.OK


def _diff(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    from kestrel_qtt.plan_commands.text import difference_text

    if len(arguments.paths) != 2:
        raise SelectionError("expected two plans: qtt plans diff A B")
    text = difference_text(*arguments.paths)
    plain_console().print(text or "the plans mean the same")
    return ExitCode.FAILURES if text else ExitCode.OK


def _prove(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    loaded = _stored(arguments)
    with closing(open_driver()) as engine:
        cases = selected(loaded, arguments)
        return max(_told(plan_commands.prove_plans(cases, engine)), report_errors(loaded))


def _checkpoint(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    loaded = _stored(arguments)
    cases = selected(loaded, arguments)
    return max(_told(plan_commands.store_checkpoints(cases, arguments.after)), report_errors(loaded))


def _resume(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    check_functions(arguments.functions)
    _found(arguments.paths)
    return _told(plan_commands.resume_checkpoints(arguments.paths, arguments.functions))


def _compact(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    _found(arguments.paths)
    return _told(plan_commands.compact_plans(arguments.paths, dry_run=arguments.dry_run))


def _found(paths: Sequence[Path]) -> list[Path]:
    """The folders of the stored plans below some paths; raise NoCaseError if there is none."""
    folders = [stored.folder for path in paths for stored in find_plans(path)]
    if not folders:
        raise NoCaseError("no stored plan was found")
    return folders


def _adopt(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    from kestrel_qtt.plan_commands.text import check_plan

    done = []
    for draft in _found(arguments.paths):
        check_plan(read_plan(draft), str(draft))
        done.append(f"stored {adopt(arguments.plans, draft).folder}")
    return _told(Findings(done))


def _amend(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    from kestrel_qtt.plan_commands.amend import Amendment, amend_plans, excuse_plans

    oracle = None if arguments.without_oracle or arguments.today else arguments.oracle
    amendment = Amendment.of(arguments.reason, oracle, read_rules(arguments.spec))
    loaded = _stored(arguments)
    with closing(open_driver()) as engine:
        cases = selected(loaded, arguments)
        action = excuse_plans if arguments.today else amend_plans
        return max(_told(action(cases, engine, amendment)), report_errors(loaded))


_ACTIONS: Mapping[str, tuple[Run, str]] = MappingProxyType(
    {
        "record": (_record, "store a new plan version for each case whose plan has changed"),
        "check": (_check, "fail where a plan is not stored, has changed since, or was edited"),
        "run": (_run, "execute stored plans, each against its own spec"),
        "explain": (_explain, "show plans as trees, with the stages in which they run"),
        "diff": (_diff, "show what differs between two plans, statement texts aside"),
        "prove": (
            _prove,
            "compare stored plans with today's codec and planner, and run today's plans where they differ",
        ),
        "checkpoint": (_checkpoint, "store checkpoints of plans: the state in the middle of their cases"),
        "resume": (_resume, "go on from stored checkpoints, and compare what comes after"),
        "compact": (
            _compact,
            "remove stored plans that say nothing more than others of their case (--dry-run: only say which)",
        ),
        "adopt": (_adopt, "store plans that were written by hand, in the style of an older release"),
        "amend": (
            _amend,
            (
                "replace the records that stored plans expect, where ksqlDB's engine agrees; the old ones are kept"
                " (--today: say why the statements mean something else today)"
            ),
        ),
    }
)
