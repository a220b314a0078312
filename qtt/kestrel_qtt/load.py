"""Case files to cases: read, validated against the closed schema, expanded, each with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.decode import (
    DecodeError,
    Members,
    each,
    exception_of,
    log_of,
    matching_of,
    optional,
    outputs_of,
    post_of,
    rules_of,
    serdes_of,
    topic_of,
)
from kestrel_qtt.cases.discovery import SPEC_FILE, CaseFile, Kind, case_file
from kestrel_qtt.cases.expand import FORMAT, Variant, expand
from kestrel_qtt.cases.files import CaseFiles, Parts
from kestrel_qtt.cases.known_gaps import NO_GAPS, Ledger, ledger_of, load_gaps
from kestrel_qtt.cases.model import Case, CaseFileError, Json
from kestrel_qtt.cases.raw import RawFile, RawItem, TextError
from kestrel_qtt.cases.read_json import line_of, parse_json, read_json
from kestrel_qtt.cases.read_yaml import read_yaml
from kestrel_qtt.cases.schema import case_problems, file_problems
from kestrel_qtt.ksqldb.rest_cases import is_rest, rest_cases
from kestrel_qtt.ksqldb.sql_scripts import script_cases
from kestrel_qtt.ksqldb.three_file import three_file_case
from kestrel_qtt.plans.store import PlanStoreError, plan_at
from kestrel_qtt.plans.store import load_stored as load_plan

CORPUS_FUNCTIONS = ("kestrel_qtt.ksqldb.corpus_functions", "kestrel_qtt.ksqldb.corpus_aggregates")
"""The modules of functions that only ksqlDB's own cases and stored plans may call."""


class Loaded(msgspec.Struct, frozen=True):
    """What files held.

    The cases that can be run, an error for every one that cannot, and the known gaps among the cases.
    """

    cases: tuple[Case, ...] = ()
    errors: tuple[CaseFileError, ...] = ()
    gaps: Ledger = msgspec.field(default_factory=lambda: NO_GAPS)


class Loader:
    """Loads the case files of a run.

    Cases may call the functions of the Python files `functions`. Known gaps are listed in `ledgers`, by default in the
    nearest `known-gaps.yaml` above each file.

    Raises:
        CaseFileError: one of `ledgers` cannot be read.
    """

    def __init__(self, functions: Sequence[Path] = (), ledgers: Sequence[Path] = ()) -> None:
        self._functions = tuple(functions)
        self._given: Ledger = {name: gap for ledger in ledgers for name, gap in load_gaps(ledger).items()}
        self._has_given = bool(ledgers)
        self._ledgers: dict[Path, Ledger] = {}
        self._files: dict[str, Path] = {}

    def load(self, file: CaseFile) -> Loaded:
        """Load a file.

        Whatever is wrong with it becomes an entry of `errors`, also a case whose id another file already has.
        """
        loaded = _loaded(file)
        functions = (*(CORPUS_FUNCTIONS if file.ksqldb else ()), *self._functions)
        cases, errors = [], list(loaded.errors)
        for case in loaded.cases:
            other = self._files.setdefault(case.id, file.path)
            if other == file.path:
                cases.append(replace(case, functions=(*case.functions, *functions)))
            else:
                errors.append(CaseFileError(file.path, case.line, f"{other} already has a case {case.id}"))
        try:
            gaps = self._gaps(file)
        except CaseFileError as error:
            return Loaded(tuple(cases), (*errors, error))
        known = {case.id for case in cases}
        gone = [gap for gap in gaps.values() if gap.case not in known]
        errors += [CaseFileError(gap.file, gap.line, f"there is no case {gap.case}") for gap in gone]
        return Loaded(tuple(cases), tuple(errors), gaps)

    def load_all(self, files: Iterable[CaseFile]) -> Loaded:
        """Load many files; an error that several of them have is listed once."""
        loaded = [self.load(file) for file in files]
        errors = {str(error): error for each in loaded for error in each.errors}
        return Loaded(
            tuple(case for each in loaded for case in each.cases),
            tuple(errors.values()),
            {name: gap for each in loaded for name, gap in each.gaps.items()},
        )

    def load_members(self, file: CaseFile, members: Json, line: int) -> Loaded:
        """Load a case that a Python test states at a line of `file`."""
        loaded = _load_items(file, [RawItem(members, line, lambda path: line, lambda name: ())])
        cases = (replace(case, functions=(*case.functions, *self._functions)) for case in loaded.cases)
        return Loaded(tuple(cases), loaded.errors)

    def _gaps(self, file: CaseFile) -> Ledger:
        """The known gaps of a file; raise CaseFileError."""
        ledger = self._given
        if not self._has_given and (path := ledger_of(file)) is not None:
            if path not in self._ledgers:
                self._ledgers[path] = load_gaps(path)
            ledger = self._ledgers[path]
        return {name: gap for name, gap in ledger.items() if name.rpartition("::")[0] == file.name}


def load(file: CaseFile | Path, functions: Sequence[Path] = ()) -> Loaded:
    """Load one file as `Loader` does.

    Raises:
        FileNotFoundError: the file at a path holds no cases.
    """
    return Loader(functions).load(file if isinstance(file, CaseFile) else case_file(file))


def load_all(files: Iterable[CaseFile], functions: Sequence[Path] = (), ledgers: Sequence[Path] = ()) -> Loaded:
    """Load many files as `Loader` does; raise CaseFileError for a ledger that is given and cannot be read."""
    return Loader(functions, ledgers).load_all(files)


def _loaded(file: CaseFile) -> Loaded:
    try:
        match file.kind:
            case Kind.STORED:
                return Loaded((load_stored(file),))
            case Kind.SCRIPT:
                return Loaded(tuple(script_cases(file, _read(file.path))))
            case Kind.THREE_FILE:
                return Loaded((three_file_case(file, _read),))
            case Kind.CASES | Kind.REST:
                return _load(file)
    except CaseFileError as error:
        return Loaded(errors=(error,))


def load_stored(file: CaseFile) -> Case:
    """Load the case of a stored `spec.json`; it executes the `plan.json` beside it; raise CaseFileError."""
    path = file.path
    try:
        stored = plan_at(path.parent) if path.name == SPEC_FILE else None
        spec: Json = parse_json(_read(path)) if stored is None else load_plan(stored)[1]
    except PlanStoreError as error:
        raise CaseFileError(path, 1, str(error)) from error
    except TextError as error:
        raise CaseFileError(path, error.line, error.message) from error
    return case_of_spec(file, spec)


def case_of_spec(file: CaseFile, spec: Json) -> Case:
    """The case of the content of a stored spec; raise CaseFileError.

    One that we stored (it has a hash) keeps our rules; all others are ksqlDB's and may call its test functions.
    """
    members = spec.get("testCase") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(members, dict):
        raise CaseFileError(file.path, 1, "a stored spec is an object with a `testCase`")
    try:
        (variant,) = expand({**members, "format": None, "config": None}, "")
        parts = CaseFiles(file.path, _read).parts(members)
        case = _Context(file).build(members, variant, parts, 1)
        case = replace(case, serdes=serdes_of(spec), log=log_of(members) if "hash" in spec else None)
    except DecodeError as error:
        path = error.path if error.path[:1] == ("schemas",) else ("testCase", *error.path)
        line = line_of(_read(file.path), path) if file.path.is_file() else 1
        raise CaseFileError(file.path, line, str(error)) from error
    return replace(case, tolerant=False) if "hash" in spec else replace(case, functions=CORPUS_FUNCTIONS)


def _load(file: CaseFile) -> Loaded:
    path, text = file.path, _read(file.path)
    try:
        raw = read_json(text) if path.suffix == ".json" else read_yaml(text)
    except TextError as error:
        raise CaseFileError(path, error.line, error.message) from error
    if not file.ksqldb:
        _check_file(path, raw)
    if not raw.items:
        raise CaseFileError(path, raw.locate(("tests",)), "`tests` must be a list with at least one case")
    return _load_items(file, raw.items)


def _load_items(file: CaseFile, items: Sequence[RawItem]) -> Loaded:
    kind = Kind.REST if any(map(is_rest, items)) else file.kind
    return _Context(replace(file, kind=kind)).load(items)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CaseFileError(path, 1, f"cannot be read: {error}") from error


def _check_file(path: Path, raw: RawFile) -> None:
    """Check everything but the cases; raise CaseFileError for the first slip."""
    for problem in file_problems(raw.head, has_tests=bool(raw.items)):
        raise CaseFileError(path, raw.locate(problem.path), problem.message)


class _Context(msgspec.Struct, frozen=True):
    """The file that cases are built for."""

    file: CaseFile

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.file.path

    def load(self, items: Iterable[RawItem]) -> Loaded:
        cases: dict[str, Case] = {}
        errors: list[CaseFileError] = []
        for item in items:
            problems = self.problems(item)
            if problems:
                errors += problems
                continue
            try:
                for case in self.cases(item):
                    unique = self.unique(case, cases)
                    cases[unique.id] = unique
            except CaseFileError as error:
                errors.append(error)
        return Loaded(tuple(cases.values()), tuple(errors))

    def unique(self, case: Case, cases: Mapping[str, Case]) -> Case:
        """Refuse a second case of the same name; foreign names that only differ in signs are told apart by a number."""
        if case.id not in cases:
            return case
        other = cases[case.id]
        if not self.file.ksqldb or any(known.name == case.name for known in cases.values()):
            raise CaseFileError(
                self.path,
                case.line,
                f"the case {case.name!r} has the same id as the one in line {other.line}: {case.id}",
            )
        base, bracket, axes = case.id.rpartition("::")[2].partition("[")
        prefix = case.id.rpartition("::")[0]
        number = next(n for n in range(2, len(cases) + 3) if f"{prefix}::{base}~{n}{bracket}{axes}" not in cases)
        return replace(case, id=f"{prefix}::{base}~{number}{bracket}{axes}")

    def cases(self, item: RawItem) -> Iterator[Case]:
        if item.error:
            raise CaseFileError(self.path, item.error.line, item.error.message)
        if self.file.kind is Kind.REST:
            yield from rest_cases(self.file, item)
            return
        members = item.data
        if not isinstance(members, dict):
            raise CaseFileError(self.path, item.line, "a case is an object")
        if self.file.ksqldb and members.get("enabled") is False:
            return
        try:
            parts = CaseFiles(self.path, _read).parts(members, item)
            given: Members = members if parts.statements is None else {**members, "statements": [*parts.statements]}
            for variant in expand(given, self.path.stem):
                yield self.build(members, variant, parts, item.line, item.lines_of("outputs"))
        except DecodeError as error:
            line = item.locate(error.path) if error.path else item.line
            raise CaseFileError(self.path, line, f"{_named(members)}{error}") from error

    def problems(self, item: RawItem) -> list[CaseFileError]:
        """What the schema and the placeholders of formats find wrong with a case."""
        members = item.data
        if item.error is not None or not isinstance(members, dict) or self.file.ksqldb or self.file.kind is Kind.REST:
            return []
        found = [(item.locate(problem.path), problem.message) for problem in case_problems(members)]
        statements = members.get("statements")
        if not found and not members.get("format") and isinstance(statements, list):
            if any(FORMAT in str(each) for each in statements):
                found = [(item.locate(("statements",)), f"{FORMAT} is used, but the case has no `format`")]
        return [CaseFileError(self.path, line, f"{_named(members)}{message}") for line, message in found]

    def build(
        self,
        members: Members,
        variant: Variant,
        parts: Parts,
        line: int,
        output_lines: Sequence[int] = (),
    ) -> Case:
        """Build one concrete case; raise DecodeError."""
        foreign = self.file.ksqldb or self.file.kind is Kind.STORED
        outputs = outputs_of(members, output_lines)
        exception = exception_of(members)
        if self.file.ksqldb and not (parts.inputs or outputs or exception):
            raise DecodeError("the case has neither inputs nor outputs nor an expected exception")
        return Case(
            id=f"{self.file.name}::{variant.slug}",
            file=self.path,
            line=line,
            name=variant.name,
            statements=variant.statements,
            format=variant.format,
            config=variant.config,
            inputs=parts.inputs,
            outputs=outputs,
            topics=each(members, "topics", topic_of),
            properties=variant.properties,
            expected_exception=exception,
            post=post_of(members),
            log=None if foreign else log_of(members),
            rules=() if foreign else rules_of(members),
            tolerant=foreign,
            plan=self.path.with_name("plan.json") if self.file.kind is Kind.STORED else None,
            script=parts.script,
            variables=optional(members, "variables", dict) or {},
            matching=matching_of(members),
        )


def _named(members: Members) -> str:
    name = members.get("name")
    return f"case {name!r}: " if isinstance(name, str) else ""
