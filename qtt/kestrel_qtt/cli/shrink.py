"""The command `qtt shrink`: make a failing case small."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from kestrel_qtt.cases.model import Case
from kestrel_qtt.cases.selection import SelectionError
from kestrel_qtt.cli.case_text import case_text
from kestrel_qtt.cli.run import (
    ExitCode,
    OpenDriver,
    add_carrier,
    add_command,
    add_selection,
    load_cases,
    plain_console,
    progress,
    selected,
)
from kestrel_qtt.ksqldb.rest_cases import RestCase
from kestrel_qtt.ksqldb.sql_scripts import ScriptCase
from kestrel_qtt.plans.spec import case_document


def add_shrink(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt shrink`."""
    text = "make a failing case small while it fails for the same reason"
    command = add_command(
        commands,
        "shrink",
        text,
        examples,
        shrink_command,
        (
            f"{text.capitalize()}: fewer statements, records, columns and expressions, smaller values. Prints the small"
            " case; nothing is changed without --write."
        ),
    )
    add_selection(command)
    add_carrier(command, "process")
    command.add_argument("--write", type=Path, metavar="FILE", help="write the small case to a new file")


def shrink_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """Shrink the one selected case, print it, and write it where asked."""
    from kestrel_qtt.variants.shrink import ShrinkError, shrink

    case = _one_case(arguments)
    if arguments.write is not None and arguments.write.exists():
        raise SelectionError(f"{arguments.write} exists; --write takes the name of a new file")
    out, tell = plain_console(), progress()
    with closing(open_driver()) as engine:
        try:
            small, reason = shrink(case, engine, tell)
        except ShrinkError as error:
            raise SelectionError(f"{case.id}: {error}") from error
    text = case_text(case_document(small))
    out.print(text, end="")
    tell(f"of {len(case.inputs)} records {len(small.inputs)} are left; both cases fail because {reason.text}")
    if arguments.write is not None:
        arguments.write.write_text(text, encoding="utf-8", errors="backslashreplace")
    return ExitCode.OK


def _one_case(arguments: argparse.Namespace) -> Case:
    """Load the one case that is selected; `FILE::name` selects by id, as failures print it."""
    names = [path for path in arguments.paths if "::" in str(path)]
    arguments.paths = [Path(str(path).partition("::")[0]) for path in arguments.paths]
    loaded = load_cases(arguments)
    cases = selected(loaded, arguments)
    if names:
        wanted = {str(name).partition("::")[2] for name in names}
        cases = [case for case in cases if case.id.partition("::")[2] in wanted]
    if len(cases) != 1:
        listed = "".join(f"\n  {case.id}" for case in cases[:10])
        raise SelectionError(f"`qtt shrink` takes one case, and {len(cases)} are selected; name one by its id{listed}")
    if isinstance(cases[0], RestCase | ScriptCase):
        raise SelectionError(f"{cases[0].id}: only cases of records can be shrunk, not REST cases or SQL scripts")
    return cases[0]
