"""The command `qtt`: begin a project, run, list, explain and approve cases, count what they reach, and keep plans."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from importlib.metadata import version
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from kestrel_qtt.cases.model import Case, CaseFileError
from kestrel_qtt.cases.selection import EmptyShardError, NoCaseError, SelectionError
from kestrel_qtt.cli.approve import Proposal, fill_in, is_open, propose
from kestrel_qtt.cli.coverage import add_coverage
from kestrel_qtt.cli.init import add_init, add_schema
from kestrel_qtt.cli.mutate import add_mutate
from kestrel_qtt.cli.plans import add_plans
from kestrel_qtt.cli.record import add_record
from kestrel_qtt.cli.remote import add_remote, fit_for_remote, remote_driver
from kestrel_qtt.cli.review import add_review
from kestrel_qtt.cli.run import (
    ExitCode,
    OpenDriver,
    Run,
    add_carrier,
    add_command,
    add_named_files,
    add_run_options,
    add_selection,
    load_cases,
    outcomes_of,
    plain_console,
    report_errors,
    run_loaded,
    selected,
)
from kestrel_qtt.cli.shrink import add_shrink
from kestrel_qtt.cli.warm import add_warm
from kestrel_qtt.cli.watch import add_watch
from kestrel_qtt.coverage.rules import RuleError
from kestrel_qtt.drivers import open as drivers
from kestrel_qtt.drivers.driver import DriverError, PlanningError
from kestrel_qtt.ksqldb.rest_cases import RestCase
from kestrel_qtt.ksqldb.sql_scripts import ScriptCase
from kestrel_qtt.plans.store import PlanStoreError
from kestrel_qtt.report.plan_graph import mermaid_text

EXAMPLES = """examples:
  qtt init orders && cd orders && qtt run cases     a script, three cases, and their first run
  qtt schema > case.schema.json                     the schema of case files, for the completion of an editor
  qtt run test-cases                                run our own cases
  qtt run test-cases/functions/lpad.json -k "negative and not AVRO"
  qtt run ../shared/ksqldb/query-validation-tests --tolerant-errors --json report.json
  qtt run test-cases --cut random:7 --restart       cut the input at random, restart every query
  kestrel broker --port 0 --once sh -c 'qtt run test-cases --kafka $KESTREL_KAFKA'
  qtt run cases --ksqldb-server http://localhost:8088 --kafka localhost:9092    on a server that runs, of ksqlDB or ours
  qtt run -s app.ksql -i input.json -o output.json    a case in the files of ksql-test-runner
  qtt approve cases --ksqldb-server http://localhost:8088 --kafka localhost:9092
                                                    fill in what that server writes
  qtt run test-cases --shard 2/4                    the second quarter of the cases
  qtt run tests --junit qtt.xml --github            reports for CI: JUnit with seconds, annotations at file and line
  qtt list test-cases -k windows                    ids, without running anything
  qtt explain test-cases/joins/left.json -k tombstone
  qtt explain cases --mermaid                       the graph of a plan, for Markdown
  qtt run cases --html report                       a report to look at: report/index.html
  qtt approve test-cases/functions/new.json         fill in outputs that are left out, then review the diff
  qtt watch cases                                   run again what a saved file touches: a case, app.sql, its inputs
  qtt review cases                                  walk through the differences: accept, skip, edit, quit
  qtt record --kafka localhost:9092 --app app.sql --topic orders=last:50 --mask value.EMAIL --write cases/real.yaml
  qtt coverage --missing                            rules, functions, steps and formats that no case reaches
  qtt coverage --branches app.sql --missing         branches of app.sql that no case reaches
  qtt mutate app.sql                                changes of app.sql that no case notices
  qtt shrink tests/a.yaml::late-orders              the smallest case that fails as this one does
  qtt plans explain historic-plans/joins/tables/my-case/1.0.0    a plan as a tree, with its stages
  qtt plans diff historic-plans/joins/tables/my-case/1.0.0 historic-plans/joins/tables/my-case/1.1.0
  qtt plans check test-cases                        fail where a plan has changed and is not recorded
  qtt warm --stop                                   end the JVM that earlier runs here left for later ones
  qtt plans record cases --version 2.1              store the plans of your application's version 2.1

exit codes: 0 nothing failed, 1 something failed, 2 wrong usage or a case file that cannot be read, 5 no case is
selected, 130 Ctrl-C
"""


def main(argv: Sequence[str] | None = None, open_driver: OpenDriver | None = None) -> int:
    """Run the command with `argv` (the arguments of the process by default) and return its exit code."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if getattr(arguments, "cold", False):
        drivers.run_cold()
    try:
        carrier = getattr(arguments, "on", "spark")
        return int(arguments.run(arguments, open_driver or partial(drivers.open_driver, carrier)))
    except NoCaseError as error:
        sys.stderr.write(f"qtt: {error}\n")
        return ExitCode.OK if isinstance(error, EmptyShardError) else ExitCode.NO_CASES
    except BrokenPipeError:
        raise
    except (OSError, SelectionError, CaseFileError, PlanStoreError, RuleError, DriverError) as error:
        plain_console(stderr=True).print(f"qtt: {_said(error)}")
        return ExitCode.USAGE
    except KeyboardInterrupt:
        Console(stderr=True).print("qtt: interrupted", highlight=False)
        return ExitCode.INTERRUPTED


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="qtt", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"qtt {version('kestrel-sql')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_init(commands, EXAMPLES)
    add_schema(commands, EXAMPLES)
    run = _command(commands, "run", "run cases and compare what comes out", run_command)
    add_run_options(run)
    run.add_argument(
        "--kafka",
        metavar="HOST:PORT",
        help="run the cases on this broker, over topics of their own that are removed afterwards",
    )
    run.add_argument(
        "--server",
        action="store_true",
        help="run the cases of REST answers over a socket, each on a server of its own; with --kafka those of records,"
        " too, on one server over the broker",
    )
    add_remote(run)
    add_named_files(run)
    _command(commands, "list", "list the ids of cases", list_command)
    explain = _command(
        commands, "explain", "show the plans of cases, and the stages in which they run", explain_command
    )
    explain.add_argument("--mermaid", action="store_true", help="print the graph of the plan as Mermaid text instead")
    approve = _command(commands, "approve", "fill in the outputs that cases leave out", approve_command)
    add_carrier(approve, "spark")
    approve.add_argument("--kafka", metavar="HOST:PORT", help="the broker of --ksqldb-server")
    add_remote(approve)
    add_review(commands, EXAMPLES)
    add_watch(commands, EXAMPLES)
    add_record(commands, EXAMPLES)
    add_coverage(commands, EXAMPLES)
    add_mutate(commands, EXAMPLES)
    add_shrink(commands, EXAMPLES)
    add_plans(commands, EXAMPLES)
    add_warm(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, run: Run
) -> argparse.ArgumentParser:
    command = add_command(commands, name, text, EXAMPLES, run)
    add_selection(command)
    return command


def run_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt run`: run the cases, print what failed and a summary, write the report."""
    loaded = load_cases(arguments)
    if arguments.ksqldb_server is not None:
        # Each system has its own words for a refusal.
        arguments.tolerant_errors = True
        return run_loaded(fit_for_remote(loaded, arguments), arguments, remote_driver(arguments))
    option = "--server" if arguments.server else "--kafka" if arguments.kafka is not None else None
    if arguments.on == "process" and option is not None:
        raise SelectionError(f"{option} runs cases on Spark, and --local in this process: leave one out")
    if arguments.on == "process" and arguments.cold:
        raise SelectionError("--cold has no effect on runs in this process: leave it out")
    if option is None:
        return run_loaded(loaded, arguments, open_driver)
    if arguments.cut or arguments.restart:
        raise SelectionError(f"--cut and --restart belong to runs in memory, not to {option}")
    if arguments.server:
        fitting = [case for case in loaded.cases if _is_served(case, on_broker=arguments.kafka is not None)]
        records = "" if arguments.kafka else "cases of records, "
        left = f"{records}SQL scripts and cases of PRINT are not run over a socket"
    else:
        fitting = [case for case in loaded.cases if case.has_records]
        left = "cases of REST answers and SQL scripts run in memory only"
    if left_out := len(loaded.cases) - len(fitting):
        Console(stderr=True).print(f"{left_out} {left}: left out", highlight=False)
    chosen = replace(loaded, cases=tuple(fitting))
    if arguments.server:
        return run_loaded(chosen, arguments, lambda: drivers.open_server_driver(arguments.kafka))
    return run_loaded(chosen, arguments, lambda: drivers.open_kafka_driver(arguments.kafka))


def _is_served(case: Case, *, on_broker: bool) -> bool:
    """Whether a case runs over a socket."""
    if isinstance(case, RestCase):
        return not case.prints
    return on_broker and not isinstance(case, ScriptCase)


def list_command(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    """`qtt list`: print the ids of the selected cases."""
    loaded = load_cases(arguments)
    out = plain_console()
    for case in selected(loaded, arguments):
        out.print(case.id)
    return report_errors(loaded)


def explain_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt explain`: print the plans and the stages of the selected cases."""
    loaded = load_cases(arguments)
    cases = selected(loaded, arguments)
    out = plain_console()
    refused = False
    with closing(open_driver()) as engine:
        for case in cases:
            try:
                text = mermaid_text(engine.plan_documents(case)) if arguments.mermaid else engine.explain(case)
            except PlanningError as error:
                # A case may expect that it is refused.
                refused |= case.expected_exception is None
                text = f"cannot be planned: {error}"
            out.print(f"{case.id} ({case.file}:{case.line})\n{text}\n")
    return max(report_errors(loaded), ExitCode.FAILURES if refused else ExitCode.OK)


def approve_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt approve`: run the cases that leave their outputs out, and write what came out into their files."""
    loaded = load_cases(arguments)
    cases = [case for case in selected(loaded, arguments) if is_open(case)]
    out = plain_console()
    if not cases:
        out.print("every case states its outputs")
        return report_errors(loaded)
    # All variants of a chosen case are run, since what is written holds for all of them.
    chosen = {(case.file, case.line) for case in cases}
    cases = [case for case in loaded.cases if (case.file, case.line) in chosen]
    if arguments.ksqldb_server is not None:
        open_driver = remote_driver(arguments)
    outcomes = outcomes_of(cases, open_driver)
    problems = 0
    for file in sorted({case.file for case in cases}):
        proposals = propose([(case, outcome) for case, outcome in outcomes if case.file == file])
        problems += _fill_in(file, proposals, out)
    return ExitCode.FAILURES if problems else report_errors(loaded)


def _fill_in(file: Path, proposals: Sequence[Proposal], out: Console) -> int:
    """Write all outputs that can be written, report the others, and return how many they are."""
    for proposal in proposals:
        text = proposal.problem or f"{len(proposal.records)} records"
        out.print(f"{file}:{proposal.case.line}: {proposal.case.name}: {text}")
        for warning in proposal.warnings:
            out.print(f"  warning: {warning}", style="yellow")
    try:
        fill_in(file, proposals)
    except CaseFileError as error:
        out.print(f"{error}")
        for proposal in proposals:
            lines = ",\n  ".join(proposal.records)
            out.print(f'"outputs": [\n  {lines}\n]')
        return len(proposals)
    return sum(bool(proposal.problem) for proposal in proposals)


if __name__ == "__main__":
    sys.exit(main())
