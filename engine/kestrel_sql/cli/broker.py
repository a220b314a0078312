"""`kestrel broker`: a Kafka broker to try things out, in the foreground or for the time of one command."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
from pathlib import Path

from rich.console import Console

from kestrel_sql.cli.usage import port_option
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.broker.broker import Broker

ADDRESS_VARIABLE = "KESTREL_KAFKA"
"""Where the command of `--once` finds the address of the broker."""

_ON_FIRST_USE = {"auto.create.topics.enable": "true"}

_WARNING = (
    "This broker is for trying things out, not for production: one node, no replication, no authentication, this"
    " machine only."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = _WARNING
    parser.add_argument(
        "--port",
        type=port_option,
        default=9092,
        metavar="PORT",
        help="where it listens; 0 takes a free port (default 9092)",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep topics in DIR; without it they are gone with the broker"
    )
    parser.add_argument(
        "--once",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help=(
            f"run a command beside the broker, with {ADDRESS_VARIABLE}=HOST:PORT set, then stop the broker; must be the"
            " last option"
        ),
    )


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    """Run a broker until it is interrupted, or until the command of `--once` ends, whose exit code is given back.

    Raises:
        EngineError: the broker does not start, or ended by itself, or there is no such command.
    """
    if arguments.once == []:
        raise EngineError("--once needs a command", hint="kestrel broker --once COMMAND ARGUMENT…")
    errors.print(_WARNING, style="yellow")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with errors.status("starting"):
        broker = Broker.start(arguments.port, arguments.data, _ON_FIRST_USE)
    with broker:
        return _beside(broker, arguments.once) if arguments.once else _in_front(broker, out)


def _in_front(broker: Broker, out: Console) -> int:
    kept = "topics are gone when it stops" if broker.is_temporary else f"topics are kept in {broker.data}"
    out.print(f"broker at {broker.address}; {kept}; Ctrl-C stops it", highlight=False, soft_wrap=True)
    try:
        code = broker.process.wait()
    except KeyboardInterrupt:
        return 0
    raise EngineError(f"the broker ended by itself with code {code}", hint=f"see {broker.data}/broker.log")


def _beside(broker: Broker, command: list[str]) -> int:
    try:
        return subprocess.run(command, env={**os.environ, ADDRESS_VARIABLE: broker.address}, check=False).returncode
    except OSError as error:
        raise EngineError(f"{command[0]} cannot be run: {error.strerror}") from error
