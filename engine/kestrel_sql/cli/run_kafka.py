"""`kestrel run` against a broker: its options, and what it shows while it runs."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from kestrel_sql.cli.broker_options import (
    REMOVE_MEMBERS,
    SINK_FROM,
    add_broker_options,
    check_sink_from,
    run_settings,
    sink_from_option,
)
from kestrel_sql.cli.client_commands import ClientCommands
from kestrel_sql.cli.monitoring import JsonBoard, JsonConsole, Monitor
from kestrel_sql.cli.options import config_of, fails
from kestrel_sql.cli.progress import Board, open_lines
from kestrel_sql.cli.registry_options import registry_of
from kestrel_sql.cli.render import Display, report, show_error, show_totals, warn
from kestrel_sql.cli.signals import stop_on_signals
from kestrel_sql.cli.usage import metrics_option, refuse
from kestrel_sql.errors import EngineError
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.kafka.run.adoption import Adoption
from kestrel_sql.kafka.run.application import Application
from kestrel_sql.kafka.run.progress import QueryState
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.queries.bad_records import BadLimit
from kestrel_sql.session.session import Session

_GRACE_S = 25.0


def add_kafka_options(parser: ArgumentParser) -> None:
    """Add the options of a run against a broker."""
    group = add_broker_options(parser)
    group.add_argument(
        "--until-caught-up",
        action="store_true",
        help="read all that the topics hold now, from their beginning, then leave",
    )
    group.add_argument(
        "--share-sources",
        action="store_true",
        help="let new queries of one topic that keep no state run as one: many start sooner, and fail together",
    )
    group.add_argument(
        "--json-progress", type=Path, metavar="FILE", help="append one JSON object for each query's progress"
    )
    group.add_argument("--processing-log-topic", metavar="TOPIC", help="where entries of the processing log go")
    group.add_argument(
        "--metrics",
        type=metrics_option,
        metavar="[HOST:]PORT",
        help="where Prometheus finds the metrics of the run; the host is 127.0.0.1 unless named",
    )
    group.add_argument(
        "--health-file", type=Path, metavar="FILE", help="a file that says the state of the run, and when it was so"
    )
    group.add_argument(
        "--log-format", choices=["text", "json"], help="messages as text for people, the default, or as JSON lines"
    )
    group.add_argument(
        "--grace",
        type=_seconds,
        metavar="SECONDS",
        help="how long a stopped run may finish its batches; the next start repeats a batch that takes longer (25)",
    )

    group.add_argument(
        "--rebuild",
        action="store_true",
        help="let a query that has changed so that it cannot resume, or whose state --adopt does not take over, begin"
        " anew, and write its results again, if its records are still there",
    )
    group.add_argument(
        "--prune",
        action="store_true",
        help="remove what the script does not have: the state of such queries, or what a server runs; topics stay",
    )
    group.add_argument(
        "--adopt",
        metavar="SERVICE_ID",
        help="at the first start, go on where a ksqlDB service that ran the same script without a command topic"
        " (headless) has ended, with its state",
    )
    group.add_argument("--sink-from", type=sink_from_option, metavar="OFFSETS", help=SINK_FROM)
    group.add_argument("--remove-members", action="store_true", help=REMOVE_MEMBERS)
    group.add_argument(
        "--max-bad",
        type=_limit,
        metavar="N|P%",
        help="end the run where more than N records, or more than P%% of those that a query has read, are bad; the"
        " batch that exceeds it is not written",
    )


def _limit(text: str) -> BadLimit:
    try:
        return BadLimit.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds(text: str) -> float:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}")
    return float(text)


def run_on_broker(files: Sequence[Path], arguments: argparse.Namespace, out: Console, errors: Console) -> bool:
    """Run scripts against a broker until SIGTERM, Ctrl-C, or until they have caught up; say whether all went well.

    Raises:
        EngineError: an option, the broker, a statement or the checkpoint forbids it.
    """
    refuse(arguments, ("input", "input_shape", "output"), "over a broker", "leave them out, or --bootstrap-servers")
    config = config_of(arguments)
    settings = replace(
        run_settings(arguments, until_caught_up=arguments.until_caught_up),
        grace=_GRACE_S if arguments.grace is None else arguments.grace,
        share_sources=arguments.share_sources,
        max_bad=arguments.max_bad,
        rebuilds=arguments.rebuild,
        prunes=arguments.prune,
    )
    stop = stop_on_signals()
    monitor = Monitor(arguments.health_file)
    with ExitStack() as stack:
        stack.enter_context(monitor.open(arguments.metrics))
        well = False
        stack.callback(lambda: monitor.end(well=well))
        lines = stack.enter_context(open_lines(arguments.json_progress))
        if arguments.log_format == "json":
            errors = JsonConsole(file=errors.file)
            board: Board = JsonBoard(errors, lines)
        else:
            board = Board(errors, lines)
            stack.enter_context(board.live())

        display = Display.of(arguments.format, out, errors, rows_only=True)

        def see(states: Sequence[QueryState]) -> None:
            board.show(states)
            monitor.show(states)

        application = Application(
            settings=settings,
            session=Session(
                config=config,
                registry=registry_of(arguments),
                functions=functions_with(arguments.functions),
                variables=dict(arguments.define),
            ),
            log_topic=arguments.processing_log_topic,
            say=warn(errors),
            show=see,
            report=report(errors),
            answer=display.answer,
            stop=stop,
            adoption=_adoption(settings, arguments, warn(errors)),
        )
        parts: list[str] = []

        def collect(part: str) -> bool:
            parts.append(part)
            return True

        if not ClientCommands(collect, display).execute_files(files):
            return False
        try:
            well = application.run(*parts)
            show_totals(errors, application.bad)
            well = well and not fails(arguments, application.bad)
            return well
        except EngineError as error:
            show_error(errors, error, application.text)
            return False


def _adoption(settings: RunSettings, arguments: argparse.Namespace, say: Callable[[str], None]) -> Adoption | None:
    if arguments.adopt is None:
        refuse(
            arguments, ("remove_members", "sink_from"), "without --adopt", "name the service with --adopt SERVICE_ID"
        )
        return None
    check_sink_from(arguments)
    return Adoption(
        settings.config,
        arguments.adopt,
        say,
        rebuilds=settings.rebuilds,
        sink_from=arguments.sink_from,
        removes_members=arguments.remove_members,
    )
