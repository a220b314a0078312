"""Find case files, their forms, and their paths in ids.

Nothing above the given folder matters, except the file that marks the root of the project.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from types import MappingProxyType

import msgspec

GAPS_FILE = "known-gaps.yaml"
PLAN_FILE = "plan.json"
SPEC_FILE = "spec.json"
STATEMENTS_FILE = "statements.sql"
INPUT_FILE = "input.json"
OUTPUT_FILE = "output.json"
SCRIPTS = (".sql", ".ksql")
SUFFIXES = (".json", ".yaml", ".yml", *SCRIPTS)

_PROJECT_FILES = ("pyproject.toml", "pytest.toml", "pytest.ini", "tox.ini", "setup.cfg", "setup.py")
_LIST = re.compile(rb"\b(tests|statements|inputs|outputs|responses)[\"']?\s*:[ \t]*(?:[\[#\r\n-]|\{\s*[\"']?file\b)")
_EXCEPTION = re.compile(rb"\bexpectedException[\"']?\s*:")
_RECORDS = re.compile(rb"\s*\{\s*\"(inputs|outputs)\"\s*:")
_SCRIPT_TEST = re.compile(rb"--@\s*test", re.IGNORECASE)


class Kind(Enum):
    """The form of a case file.

    CASES are objects in JSON or YAML; those that state responses are REST cases, as are all of ksqlDB's folder of them.
    STORED is the spec beside a stored plan, SCRIPT an SQL file with `--@test`, THREE_FILE a script beside the records
    that go in and come out, as ksql-test-runner takes them.
    """

    CASES = "cases"
    REST = "rest"
    STORED = "stored"
    SCRIPT = "script"
    THREE_FILE = "three-file"


KSQLDB_FOLDERS: Mapping[str, Kind] = MappingProxyType(
    {
        "query-validation-tests": Kind.CASES,
        "rest-query-validation-tests": Kind.REST,
        "sql-tests": Kind.SCRIPT,
        "test-runner": Kind.THREE_FILE,
        "historic-plans": Kind.STORED,
        "historical_plans": Kind.STORED,
    }
)
"""The names of the folders in ksqlDB's corpus, and the form of the files in each."""


class Records(msgspec.Struct, frozen=True):
    """The files with the records that go into a script, None without any, and come out."""

    inputs: Path | None
    outputs: Path


class CaseFile(msgspec.Struct, frozen=True):
    """A file that holds cases; `root` is the folder that ids count paths from.

    The cases of a `ksqldb` file keep ksqlDB's rules: unknown members are ignored, topics that no output names are not
    looked at, and its test functions may be called. A stored spec says by itself whose it is. `records` are the files
    of a THREE_FILE.
    """

    path: Path
    kind: Kind
    root: Path
    ksqldb: bool = False
    records: Records | None = None

    @property
    def name(self) -> str:
        """The path of the file in ids, with slashes."""
        return _absolute(self.path).relative_to(self.root).as_posix()


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds the case files of `given` files and folders, and of the folders that a project has `named`.

    Every file of a named folder must hold cases, and so must a given file unless files of other tools may be `mixed`
    in. In a given folder, only files that look like case files count. With `ksqldb` all files keep ksqlDB's rules, else
    only those in folders with the names of ksqlDB's own.
    """

    given: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    ksqldb: bool = False
    mixed: bool = False
    _given: frozenset[Path] = field(init=False, repr=False, compare=False)
    _named: frozenset[Path] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Keep absolute paths: to compare each of many given files with all of them takes minutes."""
        object.__setattr__(self, "_given", frozenset(map(_absolute, self.given)))
        object.__setattr__(self, "_named", frozenset(map(_absolute, self.named)))

    def at(self, path: Path) -> CaseFile | None:
        """Return the case file at `path`; None if it holds no cases or was not asked for."""
        full = _absolute(path)
        if full.suffix not in SUFFIXES:
            return None
        is_given, is_named = full in self._given, not self._named.isdisjoint(full.parents)
        asked = [folder for folder in full.parents if folder in self._named or folder in self._given]
        bases = [*asked, *([full.parent] if is_given else [])]
        if not bases:
            return None
        kind = _kind(full, must_hold_cases=is_named or (is_given and not self.mixed))
        return None if kind is None else _case_file(path, kind, min(bases, key=_depth), ksqldb=self.ksqldb)

    def walk(self, paths: Iterable[Path]) -> Iterator[CaseFile]:
        """The case files at and below `paths`, in name order, each once."""
        seen: set[Path] = set()
        for path in paths:
            for file in _files(path):
                found = self.at(file)
                if found is not None and _absolute(file) not in seen:
                    seen.add(_absolute(file))
                    yield found


def find_files(paths: Iterable[Path], *, ksqldb: bool = False) -> Iterator[CaseFile]:
    """Find the case files of the files and folders given.

    Raises:
        FileNotFoundError: a path does not exist, or is a file that holds no cases.
    """
    given = tuple(paths)
    finder = Finder(given, ksqldb=ksqldb)
    for path in given:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist{near_name(path)}")
        if not path.is_dir() and finder.at(path) is None:
            hint = ": cases name it with `statements: {file: …}`" if path.suffix in SCRIPTS else ""
            raise FileNotFoundError(f"{path} is not a case file{hint}")
    yield from finder.walk(given)


def near_name(path: Path) -> str:
    """Return the hint at a file or folder beside `path` with nearly its name, empty if there is none."""
    others = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    close = get_close_matches(path.name, others, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def case_file(path: Path) -> CaseFile:
    """The case file at `path`.

    Raises:
        FileNotFoundError: the file holds no cases.
    """
    found = Finder((path,)).at(path)
    if found is None:
        raise FileNotFoundError(f"{path} is not a case file")
    return found


def stored_spec(path: Path, given: Path) -> CaseFile:
    """The spec at `path` of a stored plan that was found below the folder `given`."""
    return _case_file(path, Kind.STORED, _absolute(given), ksqldb=False)


def _kind(path: Path, *, must_hold_cases: bool) -> Kind | None:
    """Return the form of the file by its content and its neighbours; None if it holds no cases."""
    if path.name == GAPS_FILE:
        return None
    if path.with_name(PLAN_FILE).is_file():
        return Kind.STORED if path.name == SPEC_FILE else None
    if path.suffix in SCRIPTS:
        if _SCRIPT_TEST.search(_content(path)):
            return Kind.SCRIPT
        return Kind.THREE_FILE if records_beside(path, must_be_there=must_hold_cases) is not None else None
    if path.name in (INPUT_FILE, OUTPUT_FILE) and path.with_name(STATEMENTS_FILE).is_file():
        return None
    if _RECORDS.match(_content(path)) and any(
        records_beside(script) is not None for script in path.parent.iterdir() if script.suffix in SCRIPTS
    ):
        return None
    return Kind.CASES if must_hold_cases or _looks_like_cases(path) else None


def records_beside(script: Path, *, must_be_there: bool = False) -> Records | None:
    """Return the files of records beside a script, found by their content; None if it is no case.

    Where several scripts are in the folder, the names of its files begin with that of the script.
    """
    named = [script.with_name(name) for name in (INPUT_FILE, OUTPUT_FILE)]
    if script.name == STATEMENTS_FILE and (must_be_there or any(file.is_file() for file in named)):
        return Records(named[0] if named[0].is_file() else None, named[1])
    beside = sorted(script.parent.iterdir())
    is_alone = sum(file.suffix in SCRIPTS for file in beside) == 1
    found: dict[bytes, list[Path]] = {b"inputs": [], b"outputs": []}
    for file in beside:
        if file.suffix == ".json" and (is_alone or file.name.startswith(script.stem)):
            content = _RECORDS.match(_content(file))
            if content is not None and not _looks_like_cases(file):
                found[content[1]].append(file)
    inputs, outputs = found[b"inputs"], found[b"outputs"]
    return Records(inputs[0] if inputs else None, outputs[0]) if len(outputs) == 1 and len(inputs) < 2 else None


def _looks_like_cases(path: Path) -> bool:
    """Whether two of three members are there (tests, statements, outputs), so that one typo hides no file."""
    content = _content(path)
    lists = {match[1] for match in _LIST.finditer(content)}
    has_results = not lists <= {b"tests", b"statements"} or _EXCEPTION.search(content) is not None
    return (b"tests" in lists) + (b"statements" in lists) + has_results > 1


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _case_file(path: Path, kind: Kind, base: Path, *, ksqldb: bool) -> CaseFile:
    """The file, which was asked for by way of the folder `base`."""
    full = _absolute(path)
    folders = (base, *reversed([folder for folder in full.parents if _is_below(folder, base)]))
    for folder in folders:
        expected = KSQLDB_FOLDERS.get(folder.name)
        if expected is kind or (expected is Kind.REST and kind is Kind.CASES):
            records = records_beside(path, must_be_there=True) if kind is Kind.THREE_FILE else None
            return CaseFile(path, expected, folder.parent, ksqldb=kind is not Kind.STORED, records=records)
    records = records_beside(path, must_be_there=True) if kind is Kind.THREE_FILE else None
    return CaseFile(path, kind, _root(full.parent, base), ksqldb, records)


def _root(folder: Path, base: Path) -> Path:
    """Return the nearest folder upwards with a Python project, else the working directory, else the one of `base`."""
    for above in (folder, *folder.parents):
        if any((above / name).is_file() for name in _PROJECT_FILES):
            return above
    here = Path.cwd()
    return here if folder.is_relative_to(here) else base.parent


def _files(path: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """The file at `path`, or those below it in name order; links are followed, once around a circle."""
    if not path.is_dir():
        if path.exists():
            yield path
        return
    real = path.resolve()
    if real in above:
        return
    for entry in sorted(path.iterdir()):
        if entry.is_dir():
            if not _is_left_out(entry):
                yield from _files(entry, above | {real})
        elif entry.suffix in SUFFIXES:
            yield from _files(entry)


def _is_left_out(folder: Path) -> bool:
    """Whether a folder is hidden, or holds packages that were installed."""
    return folder.name.startswith(".") or folder.name == "node_modules" or (folder / "pyvenv.cfg").is_file()


def _is_below(path: Path, folder: Path) -> bool:
    """Whether an absolute path lies below an absolute folder; `Path.parents` takes ten times as long."""
    return str(path).startswith(os.path.join(folder, ""))


def _depth(folder: Path) -> int:
    return len(folder.parts)


def _absolute(path: Path) -> Path:
    """Return the absolute path, without resolving links."""
    return Path(os.path.abspath(path))
