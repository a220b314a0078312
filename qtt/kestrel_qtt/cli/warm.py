"""The command `qtt warm`: show and end the JVMs that runs leave behind for the next run."""

from __future__ import annotations

import argparse
import sys

from kestrel_qtt.cases.selection import SelectionError
from kestrel_qtt.cli.run import ExitCode, OpenDriver

_TEXT = (
    "Show the JVMs with a started Spark that runs leave behind. The next run in the same directory takes one over and"
    " saves the start; after 15 minutes without a run it ends."
)


def add_warm(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    command = commands.add_parser("warm", help="show or end the JVMs that runs leave behind", description=_TEXT)
    command.set_defaults(run=warm_command)
    command.add_argument("--stop", action="store_true", help="end the one of this directory, unless a run is using it")
    command.add_argument("--all", action="store_true", help="with --stop, end those of all directories")


def warm_command(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    """`qtt warm`: print one line for each JVM.

    With `--stop`, only that of this directory and Python environment; exit code 1 says that a run is using it.

    Raises:
        SelectionError: `--all` stands alone.
        DriverError: there is no folder that this user alone may enter.
    """
    from kestrel_qtt.drivers.warm.lease import Busy, socket_path, socket_paths, take

    if arguments.all and not arguments.stop:
        raise SelectionError("--all has no effect without --stop")
    paths = [socket_path()] if arguments.stop and not arguments.all else socket_paths()
    found = [taken for path in paths if (taken := take(path)) is not None]
    for taken in found:
        if isinstance(taken, Busy):
            sys.stdout.write("a run is using one JVM\n")
            continue
        taken.leave("end" if arguments.stop else "keep", taken.code)
        sys.stdout.write(f"JVM {taken.jvm['process']} of {taken.jvm['directory']}{' ended' * arguments.stop}\n")
    if not found:
        where = " for this directory; --all ends those of others" if set(socket_paths()) - set(paths) else ""
        sys.stdout.write(f"no JVM is kept{where}\n")
    return ExitCode.FAILURES if arguments.stop and any(isinstance(taken, Busy) for taken in found) else ExitCode.OK
