"""`kestrel prepare`: what later starts would have to look for or to load, made once."""

from __future__ import annotations

import argparse

from rich.console import Console

from kestrel_sql.cli.render import warn
from kestrel_sql.kafka.connector.jars import s3_jars
from kestrel_sql.kafka.connector.prepare import prepare


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    what = "Fetch the connector's jars and archive Spark's classes, so that later starts take half the time."
    parser.description = f"{what} For images, and for machines that start runs."
    parser.add_argument("--s3", action="store_true", help="fetch also the jars for checkpoints on S3: 30 MB")


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    """Prepare this environment.

    Raises:
        EngineError: the jars are not to be had, or the archive cannot be made.
    """
    with errors.status("starting Spark once, for its classes"):
        if arguments.s3:
            s3_jars()
        path = prepare(warn(errors))
    out.print(f"the connector's jars are here, and the classes of Spark are in {path}", highlight=False, soft_wrap=True)
    return 0
