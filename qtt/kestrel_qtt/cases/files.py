"""Read the files that a case names: its script, and its inputs as JSON lines or CSV."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.decode import DecodeError, Members, input_of, integer, listed, optional, required
from kestrel_qtt.cases.discovery import near_name
from kestrel_qtt.cases.model import CaseFileError, InputRecord
from kestrel_qtt.cases.raw import RawItem, TextError
from kestrel_qtt.cases.read_json import parse_json

ROW_COLUMNS = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")
"""The columns of a CSV file that set timestamp (epoch milliseconds), partition and offset of a record."""


class Parts(msgspec.Struct, frozen=True):
    """The parts of a case that may come from files: its statements with their script, and all its inputs."""

    statements: list[str] | None
    script: Path | None
    inputs: tuple[InputRecord, ...]


class CaseFiles(msgspec.Struct, frozen=True):
    """Reads files named in the case file `path`, relative to its folder; `read` gives the text of a file.

    `read` raises CaseFileError.
    """

    path: Path
    read: Callable[[Path], str]

    def parts(self, members: Members, item: RawItem | None = None) -> Parts:
        """Read what the case `members` names; `item` knows the lines of its inputs.

        Raises:
            CaseFileError: a named file cannot be read, or a line of it is no record.
            DecodeError: a record of the case itself is wrong.
        """
        statements = members.get("statements")
        script = self._named(statements, item, ("statements",)) if isinstance(statements, dict) else None
        text = None if script is None else self.read(script)
        if script is not None and not (text or "").strip():
            raise CaseFileError(script, 1, "the script is empty")
        return Parts(None if text is None else [text], script, tuple(self._inputs(members, item)))

    def _inputs(self, members: Members, item: RawItem | None) -> Iterator[InputRecord]:
        given = members.get("inputs")
        if isinstance(given, dict):
            yield from self._records(given, item, ("inputs",))
            return
        records = listed(members, "inputs", dict)
        lines: Sequence[int | None] = item.lines_of("inputs") if item is not None else ()
        for index, record in enumerate(records):
            try:
                if "file" in record:
                    yield from self._records(record, item, ("inputs", index))
                else:
                    yield replace(input_of(record), line=lines[index] if index < len(lines) else None)
            except DecodeError as error:
                raise error.below("inputs", index) from error

    def _records(self, reference: Members, item: RawItem | None, at: Sequence[str | int]) -> Iterator[InputRecord]:
        file = self._named(reference, item, at)
        topic = optional(reference, "topic", str) or file.stem
        text = self.read(file)
        if file.suffix in (".jsonl", ".ndjson"):
            yield from _json_lines(file, text, topic)
        elif file.suffix == ".csv":
            yield from _csv(file, text, topic)
        else:
            raise self._error(item, at, f"{file} ends with {file.suffix or 'nothing'}: inputs are .jsonl or .csv files")

    def _named(self, reference: Members, item: RawItem | None, at: Sequence[str | int]) -> Path:
        """The file that a reference names."""
        file = Path(os.path.normpath(self.path.parent / required(reference, "file", str)))
        if file.is_file():
            return file
        raise self._error(item, at, f"there is no file {file}{near_name(file)}")

    def _error(self, item: RawItem | None, at: Sequence[str | int], message: str) -> CaseFileError:
        line = 1 if item is None else item.locate((*at, "file"))
        return CaseFileError(self.path, line, message)


def _json_lines(file: Path, text: str, topic: str) -> Iterator[InputRecord]:
    """One record a line, as in `inputs`; blank lines are skipped."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            members = parse_json(line)
            if not isinstance(members, dict):
                raise DecodeError('a record is an object such as {"key": 1, "value": {"A": 2}, "timestamp": 0}')
            record = input_of({"topic": topic, **members})
        except TextError as error:
            raise CaseFileError(file, number, f"this line is not JSON: {error.message}") from error
        except DecodeError as error:
            raise CaseFileError(file, number, str(error)) from error
        yield replace(record, file=file, line=number)


def _csv(file: Path, text: str, topic: str) -> Iterator[InputRecord]:
    """One record a row under a header of column names; an empty cell is NULL."""
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    line = 1
    header: list[str] = []
    try:
        for row in reader:
            if row and not header:
                header = _header(file, line, row)
            elif row:
                if len(row) != len(header):
                    raise CaseFileError(file, line, f"{len(row)} cells in a row, but {len(header)} in the header")
                yield _row(file, line, topic, dict(zip(header, (cell or None for cell in row), strict=True)))
            line = reader.line_num + 1
    except csv.Error as error:
        raise CaseFileError(file, line, f"this row is not CSV: {error}") from error
    if not header:
        raise CaseFileError(file, 1, "the file has no header with the names of columns")


def _header(file: Path, line: int, row: list[str]) -> list[str]:
    names = [name.strip() for name in row]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CaseFileError(file, line, f"the header names the column {twice!r} twice")
    return names


def _row(file: Path, line: int, topic: str, cells: dict[str, str | None]) -> InputRecord:
    places: dict[str, Any] = {}
    for name in ROW_COLUMNS:
        text = cells.pop(name, None)
        if text is not None and not (text.strip().isdecimal() and len(text) < 20):
            raise CaseFileError(file, line, f"expected a whole number for {name}, got {text[:40]!r}")
        places[name] = None if text is None else int(text)
    try:
        for name in ROW_COLUMNS:
            integer(places, name, 0)
    except DecodeError as error:
        raise CaseFileError(file, line, str(error)) from error
    return InputRecord(
        topic=topic,
        timestamp=places["ROWTIME"] or 0,
        partition=places["ROWPARTITION"],
        offset=places["ROWOFFSET"],
        cells=cells,
        file=file,
        line=line,
    )
