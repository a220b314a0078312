"""What the commands of `qtt` share: exit codes, arguments, and running loaded cases."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from enum import IntEnum
from pathlib import Path

from rich.console import Console

from kestrel_qtt.cases.discovery import SCRIPTS, CaseFile, Kind, Records, find_files
from kestrel_qtt.cases.known_gaps import Ledger
from kestrel_qtt.cases.model import Case, Outcome, Result, Status
from kestrel_qtt.cases.selection import EmptyShardError, NoCaseError, Selection, SelectionError
from kestrel_qtt.drivers.driver import PlanningDriver, RunOptions
from kestrel_qtt.drivers.functions import check_functions
from kestrel_qtt.load import Loaded, load_all
from kestrel_qtt.options import CARRIER_OPTIONS, LOAD_OPTIONS, RUN_OPTIONS, positive, run_options
from kestrel_qtt.report.text import Summary, coloured, failure_text, gap_text, summarise, watched, write_report
from kestrel_qtt.runner import file_error_result, run_cases, run_group


class ExitCode(IntEnum):
    """The exit codes of the commands, which are those of pytest."""

    OK = 0
    FAILURES = 1
    USAGE = 2
    NO_CASES = 5
    INTERRUPTED = 130


OpenDriver = Callable[[], PlanningDriver]
Run = Callable[[argparse.Namespace, OpenDriver], ExitCode]
"""Carries out a command."""


def plain_console(*, stderr: bool = False) -> Console:
    """Open a console that prints texts as they are, in lines as wide as they are."""
    return Console(stderr=stderr, soft_wrap=True, markup=False, highlight=False)


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    examples: str,
    run: Run,
    description: str | None = None,
) -> argparse.ArgumentParser:
    """Declare a command with a line of help; its own page shows `description` (the same line by default)."""
    raw = argparse.RawDescriptionHelpFormatter
    command = commands.add_parser(
        name, help=text, description=description or text, epilog=examples, formatter_class=raw
    )
    command.set_defaults(run=run)
    return command


def add_selection(command: argparse.ArgumentParser) -> None:
    """Declare the arguments that choose cases."""
    command.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a case file, or a folder of them")
    command.add_argument(
        "-k", dest="expression", metavar="EXPR", help="only cases whose id or name fits, as in pytest: `a and not b`"
    )
    command.add_argument(
        "--every",
        type=positive,
        default=1,
        metavar="N",
        help="only every N-th case of each file, its first among them",
    )
    command.add_argument("--shard", metavar="I/N", help="only every N-th case, counted from the I-th")
    add_loading(command)


def add_loading(command: argparse.ArgumentParser) -> None:
    """Declare the options that say how case files are read."""
    for name, option in LOAD_OPTIONS.items():
        command.add_argument(f"--{name}", **option)
    command.add_argument(
        "--functions",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="functions of your own: a Python file with decorated functions, which is executed; may be repeated",
    )


def add_carrier(command: argparse.ArgumentParser, default: str) -> None:
    """Declare the options of a command that runs cases on `default` unless it is told otherwise."""
    for name, option in CARRIER_OPTIONS.items():
        command.add_argument(f"--{name}", **option)
    command.set_defaults(on=default)


def progress() -> Callable[[str], None]:
    """Return a function that prints a line to standard error, prefixed with the seconds since now."""
    out = plain_console(stderr=True)
    started = time.perf_counter()

    def tell(line: str) -> None:
        out.print(f"{time.perf_counter() - started:6.1f} s  {line}")

    return tell


def load_cases(arguments: argparse.Namespace) -> Loaded:
    """Load the cases of the paths given.

    Raises:
        FileNotFoundError: a path does not exist, or is a file that holds no cases.
        CaseFileError: a ledger of known gaps cannot be read.
        DriverError: a file of functions cannot be loaded.
    """
    check_functions(arguments.functions)
    files = [*find_files(arguments.paths, ksqldb=arguments.ksqldb), *_named_files(arguments)]
    return load_all(files, arguments.functions, known_gaps(arguments))


def add_named_files(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ksql-test-runner, which name the files of one case; paths are no longer needed."""
    next(action for action in parser._actions if action.dest == "paths").nargs = "*"  # noqa: SLF001 - it has no other way
    parser.add_argument("-s", "--sql-file", type=Path, metavar="FILE", help="a case of three files: its script")
    parser.add_argument("-i", "--input-file", type=Path, metavar="FILE", help='its records, {"inputs": […]}')
    parser.add_argument("-o", "--output-file", type=Path, metavar="FILE", help='what comes out, {"outputs": […]}')


def _named_files(arguments: argparse.Namespace) -> Iterator[CaseFile]:
    """The case whose files are named one by one.

    Raises:
        SelectionError: nothing is named, or one file without another that it needs.
    """
    script, inputs, outputs = (getattr(arguments, f"{name}_file", None) for name in ("sql", "input", "output"))
    if script is not None and outputs is not None:
        yield CaseFile(script, Kind.THREE_FILE, script.absolute().parent, records=Records(inputs, outputs))
    elif script is not None or inputs is not None or outputs is not None:
        raise SelectionError("-s SCRIPT and -o OUTPUT belong together, and -i INPUT to them")
    elif not arguments.paths:
        raise SelectionError("name case files or folders, or a script and its records with -s, -i and -o")


def load_cases_of_script(arguments: argparse.Namespace) -> Loaded:
    """Load the cases as `load_cases`; a script stands for the cases below the working directory that name it."""
    scripts = {path.resolve() for path in arguments.paths if path.suffix in SCRIPTS and path.is_file()}
    if not scripts:
        return load_cases(arguments)
    found = load_all(find_files([Path()], ksqldb=arguments.ksqldb), arguments.functions, ())
    mine = tuple(case for case in found.cases if case.script is not None and case.script.resolve() in scripts)
    if not mine:
        raise SelectionError(
            f"no case below {Path.cwd()} names {', '.join(sorted(map(str, scripts)))}; "
            "a case does so with `statements: {file: app.sql}`"
        )
    return Loaded(mine, (), found.gaps)


def known_gaps(arguments: argparse.Namespace) -> Sequence[Path]:
    """The ledgers that the arguments name; commands that run nothing have no such option."""
    return getattr(arguments, "known_gaps", None) or ()


def selection_of(arguments: argparse.Namespace) -> Selection:
    """Which cases the arguments choose."""
    return Selection(arguments.expression, arguments.shard, arguments.every)


def selected(loaded: Loaded, arguments: argparse.Namespace) -> list[Case]:
    """Return the loaded cases that the arguments choose.

    Raises:
        NoCaseError: there is none, and no file that cannot be read, either.
    """
    cases = selection_of(arguments).of(loaded.cases)
    if not cases and not loaded.errors:
        raise NoCaseError("no case is selected")
    return cases


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of commands that run cases."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a report in JSON")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a report in JUnit XML, for CI systems")
    parser.add_argument("--html", type=Path, metavar="DIR", help="write a report to look at: DIR/index.html, one file")
    parser.add_argument(
        "--github",
        action="store_true",
        help="print a GitHub annotation at file and line for each case that did not pass",
    )
    for name, option in RUN_OPTIONS.items():
        parser.add_argument(f"--{name}", **option)
    add_carrier(parser, "spark")
    parser.add_argument(
        "--jobs", type=positive, default=min(2, os.cpu_count() or 1), metavar="N", help="how many groups run at once"
    )
    parser.add_argument(
        "--known-gaps",
        type=Path,
        action="append",
        metavar="FILE",
        help="a list of known gaps, may be repeated (default: the nearest known-gaps.yaml above each case file)",
    )


def run_loaded(loaded: Loaded, arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """Run loaded cases with the options of `qtt run`."""
    out = plain_console()
    file_errors = [file_error_result(error) for error in loaded.errors]
    cases: Sequence[Case] = ()
    try:
        cases = selected(loaded, arguments)
    except EmptyShardError as error:
        out.print(f"{error}")
    started = time.perf_counter()
    results = list(file_errors)
    for failed in results:
        out.print(coloured(failure_text(failed)))
    interrupted = False
    try:
        for result in _results(cases, arguments, loaded.gaps, open_driver):
            results.append(result)
            if result.status in (Status.FAILED, Status.ERROR):
                out.print(coloured(failure_text(result)))
    except KeyboardInterrupt:
        interrupted = True
    for known in (result for result in results if result.status is Status.SKIPPED):
        out.print(gap_text(known))
    summary = summarise(results, time.perf_counter() - started)
    if interrupted:
        left = len(cases) + len(file_errors) - len(results)
        out.print(f"interrupted: {left} of {len(cases)} cases did not end")
    out.print(str(summary))
    _write_reports(arguments, results, summary, out)
    # After Ctrl-C nobody waits for plans.
    _html_report(arguments, results, summary, None if interrupted else open_driver, out)
    if interrupted:
        return ExitCode.INTERRUPTED
    return max(ExitCode.USAGE if file_errors else ExitCode.OK, ExitCode.OK if summary.is_success else ExitCode.FAILURES)


def _results(
    cases: Sequence[Case], arguments: argparse.Namespace, gaps: Ledger, open_driver: OpenDriver
) -> Iterator[Result]:
    """Run the cases on a driver that is opened for them."""
    if not cases:
        return
    options = run_options(lambda name: getattr(arguments, name.replace("-", "_")), arguments.jobs)
    with closing(open_driver()) as engine:
        running = run_cases(cases, engine, options, tolerant_errors=arguments.tolerant_errors, gaps=gaps)
        yield from watched(running, len(cases), Console(stderr=True))


def _write_reports(arguments: argparse.Namespace, results: Sequence[Result], summary: Summary, out: Console) -> None:
    if arguments.json:
        write_report(arguments.json, results, summary)
    if arguments.junit:
        from kestrel_qtt.report.ci import write_junit

        write_junit(arguments.junit, results, summary)
    if arguments.github:
        from kestrel_qtt.report.ci import github_annotations

        for annotation in github_annotations(results):
            out.print(annotation)


def _html_report(
    arguments: argparse.Namespace,
    results: Sequence[Result],
    summary: Summary,
    open_driver: OpenDriver | None,
    out: Console,
) -> None:
    """Write the HTML report if it is wanted, with the plans that a driver explains."""
    if not arguments.html:
        return
    from kestrel_qtt.report.html import write_html

    engine = None if open_driver is None else open_driver()
    try:
        file = write_html(arguments.html, results, summary, None if engine is None else engine.explain)
    finally:
        if engine is not None:
            engine.close()
    out.print(f"report: {file}")


def outcomes_of(cases: Sequence[Case], open_driver: OpenDriver) -> list[tuple[Case, Outcome]]:
    """Run cases, showing progress, and give what came out of each."""
    with closing(open_driver()) as engine:
        running = run_group(cases, engine, RunOptions())
        return [(case, outcome) for case, outcome, _ in watched(running, len(cases), Console(stderr=True))]


def report_errors(loaded: Loaded) -> ExitCode:
    """Print the files and cases that could not be read, and say by an exit code whether there were any."""
    console = plain_console(stderr=True)
    for error in loaded.errors:
        console.print(str(error))
    return ExitCode.USAGE if loaded.errors else ExitCode.OK
