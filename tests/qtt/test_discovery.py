"""Which files hold cases, of which form, by whose rules, and what ids call them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cases.discovery import CaseFile, Finder, Kind, case_file, find_files
from kestrel_qtt.load import load, load_all

CASE = {"name": "a case", "statements": ["X"], "outputs": []}


def write(path: Path, content: Any = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, str):
        content = json.dumps({"tests": [CASE]} if content is None else content)
    path.write_text(content)
    return path


def names(*given: Path, **options: Any) -> list[str]:
    return [file.name for file in find_files(given, **options)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path / "app" / "pyproject.toml", "")
    return tmp_path / "app"


def test_forms(project: Path) -> None:
    write(project / "b.json")
    write(project / "a" / "a.yaml", "tests:\n  - name: x\n    statements: [X]\n    outputs: []\n")
    write(project / "known-gaps.yaml", "- {case: x, reason: tests statements, kind: never}")
    write(project / "c.sql", "--@test: x\nCREATE STREAM S;\n")
    write(project / "d.sql", "CREATE STREAM S;\n")
    write(project / "three" / "statements.sql", "CREATE STREAM S;\n")
    write(project / "three" / "output.json", {"outputs": []})
    write(project / "plans" / "1.0.0" / "plan.json", {"plan": []})
    write(project / "plans" / "1.0.0" / "spec.json", {"testCase": CASE})
    write(project / "plans" / "1.0.0" / "checkpoint-1.0.0.json", {"tests": 1, "statements": 2})
    assert [(file.name, file.kind) for file in find_files([project, project / "a"])] == [
        ("a/a.yaml", Kind.CASES),
        ("b.json", Kind.CASES),
        ("c.sql", Kind.SCRIPT),
        ("plans/1.0.0/spec.json", Kind.STORED),
        ("three/statements.sql", Kind.THREE_FILE),
    ]


def test_paths_that_hold_no_cases(project: Path) -> None:
    gaps = write(project / "known-gaps.yaml", "- x")
    with pytest.raises(FileNotFoundError, match="not a case file"):
        list(find_files([gaps]))
    with pytest.raises(FileNotFoundError, match=r"does not exist$"):
        list(find_files([project / "nothing"]))
    with pytest.raises(FileNotFoundError, match=r"does not exist; did you mean `known-gaps\.yaml`"):
        list(find_files([project / "known-gap.yaml"]))
    with pytest.raises(FileNotFoundError, match="not a case file"):
        case_file(project / "pyproject.toml")


@pytest.mark.rules("Q1.6")
@pytest.mark.parametrize("above", ["historic-plans", "query-validation-tests", "sql-tests", "x/test-runner"])
def test_what_stands_above_the_folder_does_not_matter(tmp_path: Path, above: str) -> None:
    root = tmp_path / above / "clone"
    write(root / "pyproject.toml", "")
    write(root / "test-cases" / "a.json")
    (found,) = find_files([root / "test-cases"])
    assert (found.kind, found.ksqldb, found.name) == (Kind.CASES, False, "test-cases/a.json")


@pytest.mark.parametrize(
    "content",
    [
        {"tests": [{"name": "x", "statments": ["X"], "outputs": []}]},
        {"test": [CASE]},
        {"tests": [{"name": "x", "statements": ["X"]}]},
        "tests:\n- name: x\n  statements: [X\n",
    ],
)
def test_a_slip_does_not_hide_a_file_in_a_given_folder(tmp_path: Path, content: Any) -> None:
    write(tmp_path / "any" / "a.yaml", content)
    assert [file.path.name for file in find_files([tmp_path / "any"])] == ["a.yaml"]


@pytest.mark.rules("Q1.6")
@pytest.mark.parametrize(
    "content",
    [
        {"name": "package", "scripts": {"tests": "jest"}},
        {"@context": "https://openvex.dev", "statements": [{"status": "fixed"}]},
        "name: ci\non: {workflow_dispatch: {inputs: {a: {}}, outputs: {b: {}}}}\n",
        {"properties": {"tests": {"items": {"statements": {"type": "array"}, "inputs": {"type": "array"}}}}},
        "not json {",
        {},
    ],
)
def test_other_files_of_a_given_folder_are_left_alone_and_those_of_a_named_one_are_not(
    tmp_path: Path, content: Any
) -> None:
    path = write(tmp_path / "any" / "a.yaml", content)
    assert list(find_files([tmp_path])) == []
    assert case_file(path).kind is Kind.CASES
    named = Finder(named=(tmp_path / "any",))
    assert [file.path for file in named.walk([tmp_path])] == [path]
    assert load(path).errors != ()


def test_only_what_was_asked_for_is_found(project: Path) -> None:
    write(project / "test-cases" / "a.json")
    write(project / "b.json")
    assert list(Finder().walk([project])) == []
    finder = Finder(given=(project / "b.json",), named=(project / "test-cases",))
    assert [file.name for file in finder.walk([project])] == ["b.json", "test-cases/a.json"]


def test_a_given_file_is_not_compared_with_all_others(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tuple(write(project / f"{number}.json") for number in range(60))
    asked: list[object] = []
    absolute = os.path.abspath

    def counted(path: Path) -> str:
        asked.append(path)
        return absolute(path)

    monkeypatch.setattr("os.path.abspath", counted)
    assert len([*Finder(given).walk(given)]) == len(given)
    assert len(asked) < 10 * len(given)


@pytest.mark.parametrize("hidden", [".cache", "node_modules", "venv"])
def test_hidden_and_installed_files_are_left_out(project: Path, hidden: str) -> None:
    write(project / hidden / "a.json")
    write(project / "venv" / "pyvenv.cfg", "")
    write(project / "build" / "a.json")
    assert names(project) == ["build/a.json"]
    assert names(project / hidden) == [f"{hidden}/a.json"]


def test_links_are_followed_under_their_own_names(project: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "query-validation-tests" / "a.json")
    (project / "linked").symlink_to(tmp_path / "elsewhere" / "query-validation-tests")
    (project / "one.json").symlink_to(tmp_path / "elsewhere" / "query-validation-tests" / "a.json")
    (project / "gone.json").symlink_to(project / "nothing")
    assert names(project / "linked") == ["linked/a.json"]
    (project / "linked" / "circle").symlink_to(project)
    found = list(find_files([project]))
    assert [(file.name, file.ksqldb) for file in found] == [("linked/a.json", False), ("one.json", False)]


def found(path: Path, *given: Path, ksqldb: bool = False) -> CaseFile:
    file = Finder(given, ksqldb=ksqldb).at(path)
    assert file is not None
    return file


@pytest.mark.rules("Q1.7")
def test_the_folders_of_ksqldb_are_known_by_their_names(project: Path) -> None:
    folder = project / "vendor" / "query-validation-tests"
    path = write(folder / "a.json")
    for given in (folder, path, folder.parent, project):
        assert found(path, given).ksqldb
        assert found(path, given).name == "query-validation-tests/a.json"
    rest = write(project / "vendor" / "rest-query-validation-tests" / "r.json")
    assert (found(rest, rest.parent).kind, found(rest, rest.parent).ksqldb) == (Kind.REST, True)
    script = write(project / "sql-tests" / "query-upgrades" / "s.sql", "--@test: x\nCREATE STREAM S;\n")
    assert found(script, project / "sql-tests").ksqldb
    assert not found(script, script.parent).ksqldb
    assert not found(write(project / "sql-tests" / "own.json"), project).ksqldb


def test_any_folder_may_be_said_to_be_of_ksqldb(project: Path) -> None:
    path = write(
        project / "theirs" / "a.json", {"tests": [{**CASE, "issue": 1, "inputs": [{"topic": "t", "value": 1}]}]}
    )
    assert load_all(find_files([path.parent])).errors
    loaded = load_all(find_files([path.parent], ksqldb=True))
    assert [case.tolerant for case in loaded.cases] == [True]
    assert loaded.cases[0].id == "theirs/a.json::a-case"


@pytest.mark.rules("Q3.2")
def test_ids_do_not_depend_on_the_working_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(project / "test-cases" / "a" / "b.json")
    wanted = ["test-cases/a/b.json"]
    assert names(path) == names(path.parent) == names(project) == wanted
    monkeypatch.chdir(path.parent)
    assert names(Path("b.json")) == names(Path()) == names(Path("..")) == wanted


def test_ids_outside_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "some" / "cases" / "a" / "b.json")
    assert names(tmp_path / "some" / "cases") == ["cases/a/b.json"]
    assert names(path) == ["a/b.json"]
    monkeypatch.chdir(tmp_path / "some")
    assert names(path) == names(Path("cases")) == ["cases/a/b.json"]


def test_same_id_in_two_files(tmp_path: Path) -> None:
    paths = [write(tmp_path / n / "test-cases" / "x.json") for n in ("one", "two")]
    loaded = load_all(find_files(paths))
    assert len(loaded.cases) == 1
    assert "already has a case" in loaded.errors[0].message
