"""The command `kestrel functions`: the functions, or what one takes and gives."""

from __future__ import annotations

import argparse

from rich.console import Console

from kestrel_sql.admin.entities.answers import entity_of
from kestrel_sql.admin.shown import shown
from kestrel_sql.admin.view import EngineView
from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import add_format_option, add_functions_option
from kestrel_sql.cli.render import Display
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.admin import Describe, ListObjects
from kestrel_sql.topics.memory import MemoryBroker


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", help="a function to describe")
    add_format_option(parser)
    add_functions_option(parser)


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel functions`."""
    view = EngineView(session=Session(functions=functions_with(arguments.functions)), broker=MemoryBroker())
    display = Display.of(arguments.format, out, errors)
    statement = Describe("FUNCTION", arguments.name) if arguments.name else ListObjects("FUNCTIONS")
    entity = entity_of(statement, "", view)
    if entity is not None:
        display.answer(shown(entity))
    return ExitCode.OK
