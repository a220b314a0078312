"""The command `kestrel import`: which statements of a script or of a ksqlDB installation would run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import add_functions_option
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.importer.report import import_report


def add_parser(commands: Any, examples: str) -> None:
    """Declare the command."""
    importing = commands.add_parser(
        "import", help="say which statements of a script or of a ksqlDB installation would run"
    )
    importing.add_argument("--json", action="store_true", help="print the report as JSON")
    add_functions_option(importing)
    importing.add_argument(
        "path",
        type=Path,
        metavar="PATH",
        help="a script (.sql), a folder of plan.json files, one such file, or a command topic backup",
    )


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel import`."""
    report = import_report(arguments.path, functions_with(arguments.functions))
    out.print(Text(report.to_json().rstrip() if arguments.json else str(report)), soft_wrap=True)
    return ExitCode.OK if report.is_complete else ExitCode.REFUSED
