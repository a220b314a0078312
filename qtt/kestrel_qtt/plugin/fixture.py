"""The fixture `qtt`: cases that a Python test states, in the members of case files."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.discovery import CaseFile, Kind, find_files
from kestrel_qtt.cases.model import CaseFileError, Json, Produced, Result, Status
from kestrel_qtt.judge.json_text import record_json
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.load import Loaded
from kestrel_qtt.plugin.suite import Suite
from kestrel_qtt.report.text import reason_text

Members = Mapping[str, Any]
"""Members of a case or a record as in a case file; numbers may be float or Decimal, too."""


class Qtt(msgspec.Struct, frozen=True):
    """Runs cases for the test in `file` whose name is `name`; paths count from the folder of the file."""

    suite: Suite
    file: Path
    root: Path
    name: str

    def run(self, case: Members | str | os.PathLike[str]) -> list[Result]:
        """Run one case, or those of a case file or a folder; return a result for each variant.

        A case has the members of a case file. Its `name` is that of the test by default.

        Raises:
            pytest.fail.Exception: a case did not pass or cannot be read, or there is none at the path.
        """
        __tracebackhide__ = True
        loaded = self._stated(case) if isinstance(case, Mapping) else self._found(Path(case))
        _fail([str(error) for error in loaded.errors])
        results = self.suite.run(loaded.cases, loaded.gaps)
        _fail([reason_text(result) for result in results if result.status in (Status.FAILED, Status.ERROR)])
        return results

    def app(self, script: str | os.PathLike[str], **members: object) -> App:
        """Return a case over the script of an application; `members` are those of a case, such as `variables`."""
        return App(self, {"statements": {"file": os.fspath(script)}, **members})

    def produced(self, case: Members) -> Produced:
        """Run one case without comparing anything, and return what it produced; raise as `run`."""
        __tracebackhide__ = True
        loaded = self._stated(case)
        _fail([str(error) for error in loaded.errors])
        if len(loaded.cases) != 1:
            pytest.fail("`records` takes one case, not one for each `format` or `config`")
        outcome = self.suite.outcome(loaded.cases[0])
        if not isinstance(outcome, Produced):
            pytest.fail(reason_text(judge(replace(loaded.cases[0], expected_exception=None), outcome)))
        return outcome

    def _stated(self, case: Members) -> Loaded:
        """Load a case of the test itself, at the line of the test that is running."""
        file = CaseFile(self.file, Kind.CASES, self.root)
        line = next((frame.lineno for frame in inspect.stack(0) if Path(frame.filename) == self.file), 1)
        try:
            members = {"name": self.name, **{str(key): _json(value, str(key)) for key, value in case.items()}}
        except TypeError as error:
            return Loaded(errors=(CaseFileError(self.file, line, str(error)),))
        return self.suite.loader.load_members(file, members, line)

    def _found(self, path: Path) -> Loaded:
        __tracebackhide__ = True
        try:
            return self.suite.loader.load_all(find_files([self.file.parent / path]))
        except FileNotFoundError as error:
            pytest.fail(str(error))


class App(msgspec.Struct, frozen=True):
    """A case over the script of an application; each method leaves this object as it is."""

    qtt: Qtt
    members: Members

    def given(self, *records: Members) -> App:
        """Return the case with more input records, or files of them such as `{"file": "orders.jsonl"}`."""
        return App(self.qtt, {**self.members, "inputs": [*self.members.get("inputs", ()), *records]})

    def expect(self, *records: Members, **members: object) -> None:
        """Run the script over the inputs, and compare all output records.

        `members` are further members of a case, such as `ignore`, `unordered`, `tolerance` and `log`.

        Raises:
            pytest.fail.Exception: the outputs differ, or the case cannot be read.
        """
        __tracebackhide__ = True
        self.qtt.run({**self.members, "outputs": list(records), **members})

    def records(self) -> Mapping[str, list[dict[str, Any]]]:
        """Run the script over the inputs, and return the records of each sink topic.

        A record has the members of an output of a case; numbers are int and float.

        Raises:
            pytest.fail.Exception: the script is refused, or the case cannot be read.
        """
        __tracebackhide__ = True
        topics = self.qtt.produced(self.members).records
        return {topic: [json.loads(record_json(topic, each)) for each in found] for topic, found in topics.items()}


def _fail(problems: Iterable[str]) -> None:
    """Fail the test with the problems, if there are any."""
    __tracebackhide__ = True
    text = "\n".join(problems)
    if text:
        pytest.fail(text)


def _json(value: object, path: str) -> Json:
    """Return a value as a case file gives it; raise TypeError for one that JSON does not have."""
    if value is None or isinstance(value, bool | int | str | Decimal):
        return value
    if isinstance(value, float) and value - value == 0:
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {str(key): _json(member, f"{path}.{key}") for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_json(member, f"{path}[{index}]") for index, member in enumerate(value)]
    raise TypeError(f"{path}: {value!r} has no JSON type; bytes are base64 text, times are integers or text")
