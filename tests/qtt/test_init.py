from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.drivers.records.prepare import prepare
from kestrel_qtt.load import load
from kestrel_qtt.plan_commands.record import application_version
from kestrel_qtt.plans.store import find_plans


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_project_to_begin_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "orders"]) == ExitCode.OK
    assert "next: cd orders && qtt run cases" in capsys.readouterr().out
    loaded = load(Path("orders/cases/orders.yaml"))
    assert (len(loaded.cases), loaded.errors) == (3, ())
    for case in loaded.cases:
        assert prepare(case).outcome is None
        assert case.script == Path("orders/app.sql")
    assert main(["list", "orders"]) == ExitCode.OK
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_nothing_is_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "app.sql").write_text("mine")
    assert main(["init"]) == ExitCode.USAGE
    assert "nothing written, since there is app.sql already" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["app.sql"]


def test_the_schema_goes_to_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == ExitCode.OK
    told = capsys.readouterr()
    assert json.loads(told.out)["title"] == "A file of query-translation cases"
    assert "yaml-language-server: $schema=case.schema.json" in told.err


@pytest.mark.parametrize("command", ["qtt", "kestrel"])
def test_versions(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from kestrel_sql.cli.main import main as kestrel

    with pytest.raises(SystemExit) as caught:
        (main if command == "qtt" else kestrel)(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"{command} {version('kestrel-sql')}\n"


def versions(folder: Path) -> list[str]:
    return [stored.version for stored in find_plans(folder)]


def record(statement: str, fake: Any, *arguments: str) -> ExitCode | int:
    case = {"name": "a", "statements": [statement], "outputs": []}
    Path("x.json").write_text(json.dumps({"tests": [case]}))
    return main(["plans", "record", "x.json", *arguments], lambda: fake)


def test_plans_belong_to_versions_of_the_application(here: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    stored = here / "historic-plans"
    assert record("one", fake) == ExitCode.OK
    assert record("one", fake) == ExitCode.OK
    assert record("two", fake) == ExitCode.OK
    assert versions(stored) == ["1.0", "1.1"]
    assert record("three", fake, "--version", "2.0") == ExitCode.OK
    assert record("four", fake, "--version", "2.0") == ExitCode.FAILURES
    assert "its version must be above 2.0; 2.0 is not: give a version of your application with --version" in (
        capsys.readouterr().out
    )
    assert record("four", fake, "--version", "new") == ExitCode.FAILURES
    (here / "pyproject.toml").write_text('[project]\nversion = "3.1"\n')
    assert record("four", fake) == ExitCode.OK
    assert versions(stored) == ["1.0", "1.1", "2.0", "3.1"]


@pytest.mark.parametrize(("text", "found"), [("", None), ("[project]\nversion = 1", "1"), ("[", None)])
def test_the_version_of_an_application(here: Path, text: str, found: str | None) -> None:
    (here / "pyproject.toml").write_text(text)
    assert application_version(here / "plans" / "deep") == found
