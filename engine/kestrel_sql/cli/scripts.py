"""Scripts that are planned and not run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from kestrel_sql.cli.client_commands import ClientCommands
from kestrel_sql.cli.options import config_of
from kestrel_sql.cli.registry_options import registry_of
from kestrel_sql.cli.render import Display
from kestrel_sql.errors import EngineError
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.server.sandbox import trial_session
from kestrel_sql.session.session import Session


def texts_of(files: Sequence[Path], display: Display) -> list[str]:
    """The texts of the statements of scripts.

    Raises:
        EngineError: one cannot be read.
    """
    parts: list[str] = []

    def collect(part: str) -> bool:
        parts.append(part)
        return True

    if not ClientCommands(collect, display).execute_files(files):
        raise EngineError("a script cannot be read")
    return parts


def planning_session(arguments: argparse.Namespace) -> Session:
    """A session whose statements reach nothing."""
    registry, functions = registry_of(arguments), functions_with(arguments.functions)
    return trial_session(Session(registry=registry, functions=functions), config_of(arguments), dict(arguments.define))
