"""Cases of three files: `statements.sql`, `input.json` and `output.json` side by side (rules Q15)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kestrel_qtt.cases.decode import DecodeError, input_of, listed, output_of
from kestrel_qtt.cases.discovery import INPUT_FILE, OUTPUT_FILE, CaseFile
from kestrel_qtt.cases.model import Case, CaseFileError
from kestrel_qtt.cases.raw import TextError
from kestrel_qtt.cases.read_json import parse_json


def three_file_case(file: CaseFile, read: Callable[[Path], str]) -> Case:
    """Return the case of a `statements.sql`. The inputs are optional, the outputs are not.

    Raises:
        CaseFileError: a file cannot be read, or holds something else.
    """
    path = file.path
    inputs, outputs = path.with_name(INPUT_FILE), path.with_name(OUTPUT_FILE)
    expected = _records(outputs, "outputs", read)
    given = _records(inputs, "inputs", read) if inputs.is_file() else []
    for beside, records, word in ((outputs, expected, "outputs"), (inputs, given, "inputs")):
        if not records and beside.is_file():
            raise CaseFileError(beside, 1, f"`{word}` is missing or empty")
    try:
        return Case(
            id=f"{file.name}::{path.parent.name}",
            file=path,
            line=1,
            name=path.parent.name,
            statements=(read(path),),
            inputs=tuple(map(input_of, given)),
            outputs=tuple(output_of(record, None) for record in expected),
            tolerant=True,
        )
    except DecodeError as error:
        raise CaseFileError(path, 1, str(error)) from error


def _records(file: Path, name: str, read: Callable[[Path], str]) -> list[dict[str, Any]]:
    text = read(file)
    try:
        content = parse_json(text)
        return listed(content if isinstance(content, dict) else {}, name)
    except TextError as error:
        raise CaseFileError(file, error.line, error.message) from error
    except DecodeError as error:
        raise CaseFileError(file, 1, str(error)) from error
