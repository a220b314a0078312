"""SQL scripts of tests (rules Q14).

Directives such as `--@test` start a test, and give its expected end and its rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.discovery import CaseFile
from kestrel_qtt.cases.expand import slug
from kestrel_qtt.cases.model import Case, CaseFileError, ExpectedException

_DIRECTIVE = re.compile(r"--@\s*([\w.]+)\s*:\s*(.*?)\s*$")


class ScriptCase(Case, frozen=True, kw_only=True):
    """A test of a script. `statements` holds its whole text, `line` is the line of its directive."""

    has_records: ClassVar[bool] = False


class _Test(msgspec.Struct):
    name: str
    line: int
    directives: dict[str, str] = {}
    lines: list[str] = []

    @property
    def has_statements(self) -> bool:
        """Say whether the text has more than comments."""
        return any(line.strip() and not line.lstrip().startswith("--") for line in self.lines)


def script_cases(file: CaseFile, text: str) -> Iterator[ScriptCase]:
    """Split a script into its tests. Tests of the same name get a number.

    Raises:
        CaseFileError: a directive is missing.
    """
    seen: Counter[str] = Counter()
    for test in _tests(file.path, text):
        case = _case(file, test)
        seen[case.id] += 1
        yield case if seen[case.id] == 1 else replace(case, id=f"{case.id}~{seen[case.id]}")


def _tests(path: Path, text: str) -> Iterator[_Test]:
    current: _Test | None = None
    # Not splitlines(): a literal may contain other line ends, and the parser counts line feeds only.
    for number, line in enumerate(text.split("\n"), 1):
        directive = _DIRECTIVE.match(line)
        name = directive[1].lower() if directive else ""
        if directive and name == "test":
            # Directives without statements between them belong to one test.
            if current is not None and current.has_statements:
                yield current
            current = _Test(directive[2], number)
        elif current is not None:
            if directive:
                current.directives[name] = directive[2]
            current.lines.append(line)
        elif line.strip() and not line.lstrip().startswith("--"):
            raise CaseFileError(path, number, "a script of tests starts with --@test: NAME")
    if current is None:
        raise CaseFileError(path, 1, "a script of tests starts with --@test: NAME")
    yield current


def _case(file: CaseFile, test: _Test) -> ScriptCase:
    error, message = test.directives.get("expected.error"), test.directives.get("expected.message")
    if (error is None) != (message is None):
        raise CaseFileError(
            file.path, test.line, f"test {test.name!r}: expected.error and expected.message come together"
        )
    # The text keeps its lines, so that positions in errors are positions in the file.
    text = "\n" * test.line + "\n".join(test.lines)
    return ScriptCase(
        id=f"{file.name}::{slug(test.name)}",
        file=file.path,
        line=test.line,
        name=test.name,
        statements=(text,),
        rules=tuple(test.directives.get("rules", "").split()),
        expected_exception=None if error is None else ExpectedException(message=message, type=error),
        tolerant=True,
    )
