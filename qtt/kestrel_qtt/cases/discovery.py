"""Find case files: which files of a folder hold cases, of which kind, and how their cases are addressed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path, PurePosixPath

GAPS_FILE = "known-gaps.yaml"
CASE_FOLDER = "test-cases"
SUFFIXES = (".json", ".yaml", ".yml", ".sql")
_FOREIGN_FOLDERS = ("query-validation-tests",)
PLAN_FOLDER = "historic-plans"
_PLAN_FOLDERS = (PLAN_FOLDER, "historical_plans")
_REST_FOLDER = "rest-query-validation-tests"
_OTHER_CORPORA = (_REST_FOLDER, "sql-tests", "test-runner", "schema-validation-tests")
STATEMENTS_FILE = "statements.sql"
_ANCHORS = (CASE_FOLDER, *_FOREIGN_FOLDERS, *_PLAN_FOLDERS, *_OTHER_CORPORA)


class Kind(Enum):
    """What a file holds: our own cases, ksqlDB's cases, the stored spec of a plan, or cases of another form.

    Other forms are REST cases (ksqlDB's folder of them, or a name such as `x.rest.yaml`), SQL scripts with `--@test`, and the
    `statements.sql` that stands beside `output.json`.
    """

    OWN = "own"
    FOREIGN = "foreign"
    STORED = "stored"
    REST = "rest"
    SCRIPT = "script"
    THREE_FILE = "three-file"


def kind_of(path: Path) -> Kind | None:
    """The kind of the case file at `path`, or None where it is not one that we run."""
    parts = _parts(path)
    if any(folder in parts for folder in _PLAN_FOLDERS):
        return Kind.STORED if path.name == "spec.json" else None
    if path.suffix not in SUFFIXES or path.name == GAPS_FILE:
        return None
    if path.suffix == ".sql" or path.with_name(STATEMENTS_FILE).is_file():
        return _kind_of_script(path)
    if _REST_FOLDER in parts or path.name.endswith((".rest.json", ".rest.yaml", ".rest.yml")):
        return Kind.REST
    if any(folder in parts for folder in _OTHER_CORPORA):
        return None
    return Kind.FOREIGN if any(folder in parts for folder in _FOREIGN_FOLDERS) else Kind.OWN


def _kind_of_script(path: Path) -> Kind | None:
    """The kind of a file in SQL, or beside `statements.sql`; what a script runs with RUN SCRIPT has no test of its own."""
    if path.name == STATEMENTS_FILE:
        return Kind.THREE_FILE
    if path.suffix != ".sql":
        return None
    try:
        return Kind.SCRIPT if "--@test" in path.read_text(encoding="utf-8") else None
    except (OSError, UnicodeDecodeError):
        return None


def is_foreign(path: Path) -> bool:
    """Say whether a file belongs to ksqlDB's corpora, whose unknown members are ignored."""
    return any(folder in _parts(path) for folder in (*_FOREIGN_FOLDERS, *_OTHER_CORPORA))


def is_test_file(path: Path) -> bool:
    """Say whether pytest takes the file for one of cases: those of `test-cases`, and the specs of our stored plans."""
    folders = path.parts[:-1]
    if path.suffix not in SUFFIXES or not (CASE_FOLDER in folders or PLAN_FOLDER in folders):
        return False
    return kind_of(path) not in (None, Kind.FOREIGN)


def find_files(paths: Iterable[Path]) -> Iterator[tuple[Path, Kind]]:
    """Walk files and folders in name order; below a folder that is not itself a case folder only known corpora count.

    Raises:
        FileNotFoundError: a path does not exist, or is a file that holds no cases.
    """
    seen: set[Path] = set()
    for path in paths:
        for file, kind in _walk(path):
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file, kind


def case_path(path: Path) -> str:
    """The path by which ids name a file: from its corpus folder on, else relative to the working directory."""
    parts = _parts(path)
    for index, part in enumerate(parts):
        if part in _ANCHORS:
            return PurePosixPath(*parts[index:]).as_posix()
    here = Path.cwd().resolve()
    full = path.resolve()
    return (full.relative_to(here) if full.is_relative_to(here) else full).as_posix()


def _walk(path: Path) -> Iterator[tuple[Path, Kind]]:
    if path.is_file():
        kind = kind_of(path)
        if kind is None:
            raise FileNotFoundError(f"{path} is not a case file")
        yield path, kind
    elif path.is_dir():
        known = any(part in _ANCHORS for part in _parts(path))
        for file in sorted(path.rglob("*")):
            kind = kind_of(file) if file.suffix in SUFFIXES else None
            if kind is not None and (known or _is_anchored(file) or file.parent == path):
                yield file, kind
    else:
        raise FileNotFoundError(f"{path} does not exist")


def _is_anchored(path: Path) -> bool:
    return any(part in _ANCHORS for part in _parts(path)[:-1])


def _parts(path: Path) -> tuple[str, ...]:
    return path.resolve().parts
