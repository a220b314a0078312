"""The command `kestrel import`: which statements of scripts or of a ksqlDB installation would run."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import add_engine_options, add_script_options, config_of
from kestrel_sql.cli.registry_options import add_registry_option, memory_registry_of
from kestrel_sql.cli.render import report as reporting
from kestrel_sql.formats.registry.memory import MemoryRegistry
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.importer.report import import_report
from kestrel_sql.importer.stubs import stub_file
from kestrel_sql.server.sandbox import TrialRegistry
from kestrel_sql.session.session import Session


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    stubs = "write declarations of the functions that scripts call and nobody declares, to fill in"
    parser.add_argument("--stubs", type=Path, metavar="FILE", help=stubs)
    add_registry_option(parser)
    add_engine_options(parser)
    add_script_options(parser)
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="a script, a folder of scripts or of plan.json files, one such file, or a command topic backup",
    )


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel import`."""
    # Nothing is registered: a report changes nothing.
    has_schemas = arguments.schema_registry is not None or arguments.schema
    session = Session(
        config=config_of(arguments),
        registry=TrialRegistry(memory_registry_of(arguments)) if has_schemas else MemoryRegistry(),
        functions=functions_with(arguments.functions),
        variables=dict(arguments.define),
    )
    report = import_report(arguments.paths, session)
    out.print(Text(report.to_json().rstrip() if arguments.json else str(report)), soft_wrap=True)
    if arguments.stubs is not None and report.missing:
        arguments.stubs.write_text(stub_file(report.missing), encoding="utf-8")
        reporting(errors)(f"{arguments.stubs} has {len(report.missing)} functions to fill in")
    return ExitCode.OK if report.is_complete else ExitCode.REFUSED
