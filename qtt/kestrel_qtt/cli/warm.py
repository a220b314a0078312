"""The command `qtt warm`: show and end the JVMs that runs leave behind for the next run."""

from __future__ import annotations

import argparse
import sys

from kestrel_qtt.cli.run import ExitCode, OpenDriver
from kestrel_qtt.drivers.driver import DriverError
from kestrel_qtt.drivers.warm.lease import Busy, NoFolderError, socket_paths, take

_TEXT = (
    "Show the JVMs with a started Spark that runs leave behind. The next run in the same directory takes one over and"
    " saves the start; after 15 minutes without a run it ends."
)


def add_warm(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    command = commands.add_parser("warm", help="show or end the JVMs that runs leave behind", description=_TEXT)
    command.add_argument("--stop", action="store_true", help="end those that no run is using")


def warm_command(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    """`qtt warm`: print one line for each JVM; with `--stop`, exit code 1 says that a run is using one.

    Raises:
        DriverError: there is no folder that this user alone may enter.
    """
    try:
        found = [taken for path in socket_paths() if (taken := take(path)) is not None]
    except NoFolderError as error:
        raise DriverError(str(error)) from error
    for taken in found:
        if isinstance(taken, Busy):
            sys.stdout.write("a run is using one JVM\n")
            continue
        taken.leave("end" if arguments.stop else "keep", taken.code)
        sys.stdout.write(f"JVM {taken.jvm['process']} of {taken.jvm['directory']}{' ended' * arguments.stop}\n")
    if not found:
        sys.stdout.write("no JVM is kept\n")
    return ExitCode.FAILURES if arguments.stop and any(isinstance(taken, Busy) for taken in found) else ExitCode.OK
