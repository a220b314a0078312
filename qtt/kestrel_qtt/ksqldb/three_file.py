"""Cases of three files, such as `statements.sql`, `input.json` and `output.json` side by side (rules Q15)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kestrel_qtt.cases.decode import DecodeError, Members, each, input_of, output_of
from kestrel_qtt.cases.discovery import STATEMENTS_FILE, CaseFile, records_beside
from kestrel_qtt.cases.model import Case, CaseFileError
from kestrel_qtt.cases.raw import TextError
from kestrel_qtt.cases.read_json import line_of, parse_json

_Record = TypeVar("_Record")


def three_file_case(file: CaseFile, read: Callable[[Path], str]) -> Case:
    """Return the case of a script. The inputs are optional, the outputs are not.

    Raises:
        CaseFileError: a file cannot be read, or holds something else.
    """
    path = file.path
    records = file.records or records_beside(path, must_be_there=True)
    if records is None:
        raise CaseFileError(path, 1, "there are no records beside the script")
    name = path.parent.name if path.name == STATEMENTS_FILE else path.stem
    expected = _records(records.outputs, "outputs", read, lambda record: output_of(record, None))
    return Case(
        id=f"{file.name}::{name}",
        file=path,
        line=1,
        name=name,
        statements=(read(path),),
        inputs=() if records.inputs is None else _records(records.inputs, "inputs", read, input_of),
        outputs=expected,
        tolerant=True,
    )


def _records(
    file: Path, name: str, read: Callable[[Path], str], build: Callable[[Members], _Record]
) -> tuple[_Record, ...]:
    """Read the list `name` of a file, which has at least one record; raise CaseFileError."""
    text = read(file)
    try:
        content = parse_json(text)
        records = each(content if isinstance(content, dict) else {}, name, build)
    except TextError as error:
        raise CaseFileError(file, error.line, error.message) from error
    except DecodeError as error:
        raise CaseFileError(file, line_of(text, error.path), str(error)) from error
    if not records:
        raise CaseFileError(file, 1, f"`{name}` is missing or empty")
    return records
