"""The option `--ksqldb-server`: cases on a server that is running."""

from __future__ import annotations

import argparse

from msgspec.structs import replace
from rich.console import Console

from kestrel_qtt.cases.selection import SelectionError
from kestrel_qtt.cli.run import OpenDriver
from kestrel_qtt.drivers import open as drivers
from kestrel_qtt.load import Loaded


def add_remote(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    url = (
        "run the cases of records on this server, of ksqlDB or of Kestrel, and its broker (--kafka), under names of"
        " their own that are dropped afterwards; what it refuses may have any message"
    )
    parser.add_argument("--ksqldb-server", metavar="URL", help=url)
    registry = "the schema registry of that server; without it cases with schemas are left out"
    parser.add_argument("--schema-registry", metavar="URL", help=registry)
    cached = "leave that server its cache: of the changes of a table the last one of each key is compared"
    parser.add_argument("--server-cache", action="store_true", help=cached)


def remote_driver(arguments: argparse.Namespace) -> OpenDriver:
    """Return what opens the driver; its jobs are cases at a time.

    Raises:
        SelectionError: options are missing or contradict each other.
    """
    if arguments.kafka is None:
        raise SelectionError("--ksqldb-server needs --kafka HOST:PORT, the broker of the server")
    for name in ("cut", "restart", "server"):
        if getattr(arguments, name, None):
            raise SelectionError(f"--{name} has no effect with --ksqldb-server: leave it out")
    if arguments.on == "process":
        raise SelectionError("--ksqldb-server runs cases there, and --local in this process: leave one out")
    at_once, arguments.jobs = getattr(arguments, "jobs", 2), 1
    return lambda: drivers.open_remote_driver(
        arguments.ksqldb_server,
        arguments.kafka,
        arguments.schema_registry,
        at_once,
        cached=arguments.server_cache,
    )


def fit_for_remote(loaded: Loaded, arguments: argparse.Namespace) -> Loaded:
    """The cases that a server can run, with what can be compared there, and the number of the others told."""
    from kestrel_qtt.drivers.remote.driver import can_run, comparable

    schemas = arguments.schema_registry is not None
    cached = arguments.server_cache
    fitting = tuple(comparable(case, cached=cached) for case in loaded.cases if can_run(case, schemas=schemas))
    if left := len(loaded.cases) - len(fitting):
        why = "REST answers, scripts, own functions, ids of schemas" + ("" if schemas else ", schemas")
        Console(stderr=True).print(f"{left} cases are left out: {why}, or nothing that a server shows", highlight=False)
    return replace(loaded, cases=fitting)
