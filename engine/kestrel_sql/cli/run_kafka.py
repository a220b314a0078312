"""`kestrel run` against a broker: its options, and what it shows while it runs."""

from __future__ import annotations

import argparse
import signal
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

from rich.console import Console

from kestrel_sql.cli.broker_options import add_broker_options, properties_of, registry_of, run_settings
from kestrel_sql.cli.client_commands import ClientCommands
from kestrel_sql.cli.progress import Board, open_lines
from kestrel_sql.cli.render import report, show, show_error, show_totals, warn
from kestrel_sql.errors import EngineError
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.kafka.run.application import Application
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session

BAD_RECORDS = "bad-records"
"""The value of `--fail-on` that makes bad records a failure."""


def add_kafka_options(parser: Any) -> None:
    """Add the options of a run against a broker."""
    group = add_broker_options(parser)
    group.add_argument(
        "--until-caught-up",
        action="store_true",
        help="read all that the topics hold now, from their beginning, then leave",
    )
    group.add_argument(
        "--json-progress", type=Path, metavar="FILE", help="append one JSON object for each query's progress"
    )
    group.add_argument("--processing-log-topic", metavar="TOPIC", help="where entries of the processing log go")


def run_on_broker(text: str, folder: Path, arguments: argparse.Namespace, out: Console, errors: Console) -> bool:
    """Run a script against a broker until SIGTERM, Ctrl-C, or until it has caught up; say whether all went well.

    The paths of scripts that it runs are relative to `folder`.

    Raises:
        EngineError: an option, the broker, a statement or the checkpoint forbids it.
    """
    if arguments.input or arguments.output:
        raise EngineError(
            "--input and --output are for topics in memory", hint="leave them out, or --bootstrap-servers"
        )
    config = Config.of({})
    for name, value in properties_of(arguments).items():
        config = config.with_property(name, value)
    settings = run_settings(arguments, until_caught_up=arguments.until_caught_up)
    stop = _stop_on_signals()
    with ExitStack() as stack:
        board = Board(errors, stack.enter_context(open_lines(arguments.json_progress)))
        stack.enter_context(board.live())
        application = Application(
            settings=settings,
            session=Session(
                config=config, registry=registry_of(arguments), functions=functions_with(arguments.functions)
            ),
            log_topic=arguments.processing_log_topic,
            say=warn(errors),
            show=board.show,
            report=report(errors),
            answer=lambda answer: show(out, answer, errors),
            stop=stop,
        )
        parts: list[str] = []

        def collect(part: str) -> bool:
            parts.append(part)
            return True

        if not ClientCommands(collect, errors, errors).execute(text, folder):
            return False
        try:
            well = application.run(*parts)
            show_totals(errors, application.bad)
            return well and not (BAD_RECORDS in arguments.fail_on and application.bad.total)
        except EngineError as error:
            show_error(errors, error, application.text)
            return False


def _stop_on_signals() -> Event:
    """An event that SIGTERM and Ctrl-C set; a second Ctrl-C ends the process as usual."""
    stop = Event()

    def end(number: int, _: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return stop
