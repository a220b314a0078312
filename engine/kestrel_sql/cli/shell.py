"""The command `kestrel shell`: a prompt, or statements from a text or file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from kestrel_sql.cli.client_commands import ClientCommands, OnError
from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import (
    add_engine_options,
    add_fail_option,
    add_format_option,
    add_input_options,
    add_script_options,
    execute_all,
    fails,
    memory_engine,
)
from kestrel_sql.cli.registry_options import add_registry_option
from kestrel_sql.cli.remote import RemoteServer, add_remote_options
from kestrel_sql.cli.render import Display, show_totals, warn
from kestrel_sql.cli.texts import WELCOME, piped_texts, run_text
from kestrel_sql.cli.usage import one_of, refuse
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.sql.script_files import script_files


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--execute", metavar="SQL", help="execute these statements and leave")
    file = "execute the statements of files, or of the scripts of a folder, and leave"
    parser.add_argument("--file", type=Path, nargs="+", action="extend", default=[], metavar="FILE", help=file)
    history = "where the prompt keeps its history (default: ~/.kestrel_history)"
    parser.add_argument("--history", type=Path, metavar="FILE", help=history)
    add_remote_options(parser)
    add_registry_option(parser)
    parser.add_argument(
        "--on-error",
        **one_of(OnError),
        help="whether the statements after one that failed run (default: stop); either way the exit code is 1",
    )
    add_format_option(parser)
    add_fail_option(parser)
    add_input_options(parser)
    add_engine_options(parser)
    add_script_options(parser)


_HISTORY = Path.home() / ".kestrel_history"


def _check_shell(arguments: argparse.Namespace) -> None:
    if arguments.server:
        alone = ("input", "input_shape", "functions", "fail_on", "schema", "skip_connectors")
        refuse(arguments, alone, "with --server, which has topics and functions of its own", "leave them out")
    else:
        refuse(arguments, ("user", "ca"), "without --server", "name the server with --server URL")
    if arguments.file or arguments.execute is not None or not sys.stdin.isatty():
        refuse(arguments, ("history",), "without a prompt", "leave it out")
    else:
        refuse(arguments, ("on_error",), "at a prompt, which goes on after errors", "leave it out")


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel shell`."""
    _check_shell(arguments)
    engine, inputs = memory_engine(arguments)
    server = RemoteServer.of(arguments) if arguments.server else None
    bad = BadRecords(warn(errors))
    display = Display.of(arguments.format, out, errors)

    def execute(text: str) -> bool:
        if server is not None:
            return server.run_text(text, display)
        return run_text(engine, text, display, inputs, bad)

    try:
        commands = ClientCommands(execute, display, arguments.on_error or OnError.STOP)
        here, files = Path.cwd(), script_files(arguments.file)
        texts: Iterable[str] = [] if arguments.execute is None else [arguments.execute]
        if not (files or texts) and not sys.stdin.isatty():
            texts = piped_texts(sys.stdin)
        if files or texts:
            done = commands.execute_files(files)
            if done or commands.on_error is OnError.CONTINUE:
                done = execute_all(commands, texts, here) and done
            show_totals(errors, bad)
            failed = bool(bad.stopped) or fails(arguments, bad)
            return ExitCode.OK if done and not failed else ExitCode.REFUSED
        welcome = WELCOME if server is None else f"{server.version()}. A statement ends with a semicolon; help, exit."
        from kestrel_sql.cli.prompt import run_shell

        run_shell(
            engine,
            out,
            errors,
            arguments.history or _HISTORY,
            run=lambda text: commands.execute(text, here),
            welcome=welcome,
        )
        return ExitCode.OK
    finally:
        engine.close()
