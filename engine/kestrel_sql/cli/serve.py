"""`kestrel serve`: the engine behind ksqlDB's HTTP API."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from types import FrameType

from rich.console import Console

from kestrel_sql.errors import EngineError
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served import ServedEngine
from kestrel_sql.server.open import ServerSettings, memory_server
from kestrel_sql.session.session import Session


def add_serve_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the options of `kestrel serve`, but for those that all engines have."""
    parser = commands.add_parser("serve", help="answer ksqlDB's HTTP API, and show a page at /ui")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8088", help="where to listen (127.0.0.1:8088)"
    )
    parser.add_argument("--service-id", metavar="ID", help="the ksql.service.id (default_)")
    return parser


def serve_command(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    config = Config.of(dict(arguments.set))
    if arguments.service_id:
        config = Config.of({**config.overrides, "ksql.service.id": arguments.service_id})
    engine = ServedEngine(Session(config=config, functions=functions_with(arguments.functions)), by_time=True)
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    try:
        with memory_server(engine, _settings(arguments)) as running:
            signal.signal(signal.SIGINT, stop)
            signal.signal(signal.SIGTERM, stop)
            out.print(
                f"Kestrel answers at {running.url}, its page is {running.url}/ui; Ctrl-C ends it.", highlight=False
            )
            stopped.wait()
    except OSError as error:
        raise EngineError(f"{arguments.listen} cannot be listened on: {error.strerror or error}") from error
    return 0


def _settings(arguments: argparse.Namespace) -> ServerSettings:
    host, separator, port = arguments.listen.rpartition(":")
    if not separator or not port.isdecimal():
        raise EngineError(f"--listen takes HOST:PORT, not {arguments.listen!r}")
    return ServerSettings(host=host.strip("[]"), port=int(port))
