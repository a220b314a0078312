"""The command `qtt`: run, list, explain and approve cases, and keep historic plans."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path

from rich.console import Console

from qtt import driver as drivers
from qtt import plan_commands
from qtt.approve import Proposal, fill_in, is_open, propose
from qtt.corpus import find_files
from qtt.driver import DEFAULT_GROUP_SIZE, PlanningDriver, RunOptions
from qtt.gaps import Ledger, ledger_of, load_gaps, unknown_cases
from qtt.load import Loaded, load_all
from qtt.model import Case, CaseFileError, Result, Status
from qtt.plans import PlanStoreError
from qtt.report import failure_text, summarise, watched, write_report
from qtt.rest import RestCase
from qtt.runner import file_error_result, run_cases, run_group
from qtt.selection import SelectionError, select
from qtt.sql_script import ScriptCase

OpenDriver = Callable[[], PlanningDriver]

EXAMPLES = """examples:
  qtt run test-cases                                run our own cases
  qtt run test-cases/functions/lpad.json -k "negative and not AVRO"
  qtt run ../shared/ksqldb/query-validation-tests --tolerant-errors --json report.json
  qtt run test-cases --cut random:7 --restart       cut the input at random, restart every query
  qtt run test-cases --shard 2/4                    the second quarter of the cases
  qtt list test-cases -k windows                    ids, without running anything
  qtt explain test-cases/joins/left.json -k tombstone
  qtt approve test-cases/functions/new.json         fill in outputs that are left out, then review the diff
  qtt plans explain historic-plans/my-case/1.0.0    a plan as a tree, with its Spark SQL
  qtt plans diff historic-plans/my-case/1.0.0 historic-plans/my-case/1.1.0
  qtt plans check test-cases                        fail where a plan has changed and is not recorded

exit codes: 0 nothing failed, 1 something failed, 2 wrong usage or a case file that cannot be read
"""


class ExitCode(IntEnum):
    """What the command tells its caller."""

    OK = 0
    FAILURES = 1
    USAGE = 2


def main(argv: Sequence[str] | None = None, open_driver: OpenDriver = drivers.open_driver) -> int:
    """Run the command with `argv` (the arguments of the process by default) and return its exit code."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    try:
        return int(_COMMANDS[arguments.command](arguments, open_driver))
    except (FileNotFoundError, SelectionError, CaseFileError, PlanStoreError) as error:
        Console(stderr=True).print(f"qtt: {error}", markup=False, highlight=False, soft_wrap=True)
        return ExitCode.USAGE


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = argparse.ArgumentParser(prog="qtt", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = _command(commands, "run", "run cases and compare what comes out")
    _add_run_options(run)
    _command(commands, "list", "list the ids of cases")
    _command(commands, "explain", "show the plan and the Spark SQL of cases")
    _command(commands, "approve", "fill in the outputs that cases leave out")
    plans = commands.add_parser("plans", help="keep historic plans: record, check, run")
    actions = plans.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in plan_commands.ACTIONS.items():
        action = _command(actions, name, text)
        action.add_argument("--plans", type=Path, default=Path("historic-plans"), metavar="FOLDER", help="where plans are kept")
        if name == "run":
            _add_run_options(action)
    return parser


def _command(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a case file, or a folder of them")
    command.add_argument("-k", dest="expression", metavar="EXPR", help="only cases whose id or name fits, as in pytest: `a and not b`")
    command.add_argument("--shard", metavar="I/N", help="only every N-th case, counted from the I-th")
    return command


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a report in JSON")
    parser.add_argument("--tolerant-errors", action="store_true", help="accept any rejection of the right statement, whatever its message")
    parser.add_argument("--cut", type=_cut, metavar="HOW", help="cut the input into micro-batches: one, each or random:SEED")
    parser.add_argument("--restart", action="store_true", help="stop every query in the middle and restart it from its checkpoint")
    parser.add_argument("--group-size", type=_positive, default=DEFAULT_GROUP_SIZE, metavar="N", help="how many cases share a Spark query")
    parser.add_argument("--known-gaps", type=Path, metavar="FILE", help="the ledger (default: known-gaps.yaml of the test-cases folder)")


def _cut(text: str) -> str:
    if text in ("one", "each") or (text.startswith("random:") and text[7:].isdigit()):
        return text
    raise argparse.ArgumentTypeError(f"one, each or random:SEED, not {text!r}")


def _positive(text: str) -> int:
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"a positive number, not {text!r}")


def run_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt run`: run the cases, print what failed and a summary, write the report."""
    loaded = load_all(find_files(arguments.paths))
    return run_loaded(loaded, arguments, open_driver)


def run_loaded(loaded: Loaded, arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """Run loaded cases with the options of `qtt run`."""
    cases = select(loaded.cases, arguments.expression, arguments.shard)
    ledger = _ledger(loaded, arguments.known_gaps)
    gap_errors = [CaseFileError(g.file, g.line, f"there is no case {g.case}") for g in unknown_cases(ledger, (c.id for c in loaded.cases))]
    file_errors = [file_error_result(error) for error in (*loaded.errors, *gap_errors)]
    if not cases and not file_errors:
        raise SelectionError("no case is selected")
    out, progress = Console(soft_wrap=True), Console(stderr=True)
    started = time.perf_counter()
    results = list(file_errors)
    for failed in results:
        out.print(failure_text(failed), markup=False, highlight=False)
    if cases:
        results += _run(cases, arguments, ledger, open_driver, out, progress)
    summary = summarise(results, time.perf_counter() - started)
    out.print(str(summary), markup=False, highlight=False)
    if arguments.json:
        write_report(arguments.json, results, summary)
    if file_errors:
        return ExitCode.USAGE
    return ExitCode.OK if summary.is_success else ExitCode.FAILURES


def _run(
    cases: Sequence[Case], arguments: argparse.Namespace, ledger: Ledger, open_driver: OpenDriver, out: Console, progress: Console
) -> list[Result]:
    options = RunOptions(arguments.cut, arguments.restart, arguments.group_size)
    engine = open_driver()
    results: list[Result] = []
    try:
        running = run_cases(cases, engine, options, tolerant_errors=arguments.tolerant_errors, ledger=ledger)
        for result in watched(running, len(cases), progress):
            results.append(result)
            if result.status in (Status.FAILED, Status.ERROR):
                out.print(failure_text(result), markup=False, highlight=False)
    finally:
        engine.close()
    return results


def _ledger(loaded: Loaded, path: Path | None) -> Ledger:
    if path is not None:
        return load_gaps(path)
    ledgers = {ledger for case in loaded.cases if (ledger := ledger_of(case.file))}
    return {name: gap for ledger in sorted(ledgers) for name, gap in load_gaps(ledger).items()}


def list_command(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    """`qtt list`: print the ids of the selected cases."""
    loaded = load_all(find_files(arguments.paths))
    out = Console(soft_wrap=True)
    for case in select(loaded.cases, arguments.expression, arguments.shard):
        out.print(case.id, markup=False, highlight=False)
    return _report_errors(loaded)


def explain_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt explain`: print the plan and the Spark SQL of the selected cases."""
    loaded = load_all(find_files(arguments.paths))
    cases = select(loaded.cases, arguments.expression, arguments.shard)
    if not cases and not loaded.errors:
        raise SelectionError("no case is selected")
    out = Console(soft_wrap=True)
    engine = open_driver()
    try:
        for case in cases:
            out.print(f"{case.id} ({case.file}:{case.line})\n{engine.explain(case)}\n", markup=False, highlight=False)
    finally:
        engine.close()
    return _report_errors(loaded)


def approve_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt approve`: run the cases that leave their outputs out, and write what came out into their files."""
    loaded = load_all(find_files(arguments.paths))
    cases = [case for case in select(loaded.cases, arguments.expression, arguments.shard) if is_open(case)]
    out = Console(soft_wrap=True)
    if not cases:
        out.print("every case states its outputs")
        return _report_errors(loaded)
    # All variants of a chosen case are run, since what is written holds for all of them.
    chosen = {(case.file, case.line) for case in cases}
    cases = [case for case in loaded.cases if (case.file, case.line) in chosen]
    engine = open_driver()
    try:
        outcomes = [(case, outcome) for case, outcome, _ in run_group(cases, engine, RunOptions())]
    finally:
        engine.close()
    problems = 0
    for file in sorted({case.file for case in cases}):
        proposals = propose([(case, outcome) for case, outcome in outcomes if case.file == file])
        problems += _fill_in(file, proposals, out)
    return ExitCode.FAILURES if problems else _report_errors(loaded)


def _fill_in(file: Path, proposals: Sequence[Proposal], out: Console) -> int:
    """Write what can be written, say what cannot, and count the latter."""
    for proposal in proposals:
        text = proposal.problem or f"{len(proposal.records)} records"
        out.print(f"{file}:{proposal.case.line}: {proposal.case.name}: {text}", markup=False, highlight=False)
    try:
        fill_in(file, proposals)
    except CaseFileError as error:
        out.print(f"{error}", markup=False, highlight=False)
        for proposal in proposals:
            lines = ",\n  ".join(proposal.records)
            out.print(f'"outputs": [\n  {lines}\n]', markup=False, highlight=False)
        return len(proposals)
    return sum(bool(proposal.problem) for proposal in proposals)


def plans_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt plans record|check|run|explain|diff`."""
    if arguments.action == "run":
        return run_loaded(plan_commands.stored_cases(arguments.paths), arguments, open_driver)
    if arguments.action in ("explain", "diff"):
        return _show_plans(arguments, open_driver)
    loaded = load_all(find_files(arguments.paths))
    cases = select(loaded.cases, arguments.expression, arguments.shard)
    engine = open_driver()
    try:
        action = plan_commands.record_plans if arguments.action == "record" else plan_commands.check_plans
        planned = [case for case in cases if case.expected_exception is None and not isinstance(case, RestCase | ScriptCase)]
        messages = action(planned, engine, arguments.plans)
    finally:
        engine.close()
    out = Console(soft_wrap=True)
    for message in messages:
        out.print(message, markup=False, highlight=False)
    failed = arguments.action == "check" and messages
    return ExitCode.FAILURES if failed else _report_errors(loaded)


def _show_plans(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt plans explain PATH…` and `qtt plans diff A B`; the latter says by its exit code whether the two differ."""
    from qtt.plan_text import difference_text, explain_text

    out = Console(soft_wrap=True)
    if arguments.action == "diff":
        if len(arguments.paths) != 2:
            raise SelectionError("two plans are compared: qtt plans diff A B")
        text = difference_text(*arguments.paths)
        out.print(text or "the plans mean the same", markup=False, highlight=False)
        return ExitCode.FAILURES if text else ExitCode.OK
    engine = open_driver()
    try:
        for name, text in plan_commands.plan_texts(arguments.paths, arguments.expression, arguments.shard, engine):
            out.print(f"{name}\n{explain_text(text, name)}\n", markup=False, highlight=False)
    finally:
        engine.close()
    return ExitCode.OK


def _report_errors(loaded: Loaded) -> ExitCode:
    console = Console(stderr=True, soft_wrap=True)
    for error in loaded.errors:
        console.print(str(error), markup=False, highlight=False)
    return ExitCode.USAGE if loaded.errors else ExitCode.OK


_COMMANDS: dict[str, Callable[[argparse.Namespace, OpenDriver], ExitCode]] = {
    "run": run_command,
    "list": list_command,
    "explain": explain_command,
    "approve": approve_command,
    "plans": plans_command,
}

if __name__ == "__main__":
    sys.exit(main())
