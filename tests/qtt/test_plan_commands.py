from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cli.main import ExitCode, main

FORMATS = {"keyFormat": {"format": "KAFKA"}, "valueFormat": {"format": "JSON"}}
SCHEMA = "`K` INTEGER KEY, `V` BIGINT"


def plan() -> dict[str, Any]:
    source = {
        "@type": "streamSourceV1",
        "properties": {"queryContext": "KsqlTopic/Source"},
        "topicName": "in",
        "formats": FORMATS,
        "sourceSchema": SCHEMA,
    }
    select = {
        "@type": "streamSelectV1",
        "properties": {"queryContext": "Project"},
        "source": source,
        "selectExpressions": ["V AS V"],
    }
    sink = {
        "@type": "streamSinkV1",
        "properties": {"queryContext": "OUT"},
        "source": select,
        "formats": FORMATS,
        "topicName": "OUT",
    }
    query = {"sources": ["IN"], "sink": "OUT", "queryId": "CSAS_OUT_0", "physicalPlan": sink}
    command = {
        "@type": "createStreamV1",
        "sourceName": "OUT",
        "schema": "`K` INTEGER KEY, `V` BIGINT",
        "topicName": "OUT",
        "formats": FORMATS,
    }
    return {
        "plan": [{"@type": "ksqlPlanV1", "statementText": "CREATE …", "ddlCommand": command, "queryPlan": query}],
        "configs": {},
    }


def write(folder: Path, document: Any) -> str:
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps(document), encoding="utf-8")
    return str(folder)


def test_explain_shows_the_tree_and_the_stages(tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plans", "explain", write(tmp_path / "a", plan())], lambda: fake) == ExitCode.OK
    out = capsys.readouterr().out
    assert "└─ streamSelectV1 [Project]" in out
    assert "-- CSAS_OUT_0, stage 0\nr0: read " in out


def test_explain_names_what_has_no_column_body(tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    document = plan()
    select = document["plan"][0]["queryPlan"]["physicalPlan"]["source"]
    select["selectExpressions"] = ["ABS(V) AS A", "CBRT(V) AS B"]
    main(["plans", "explain", write(tmp_path / "a", document)], lambda: fake)
    assert "CBRT(V) AS B -- without column bodies: B\n" in capsys.readouterr().out


def changed(**members: Any) -> dict[str, Any]:
    document = plan()
    document["plan"][0]["queryPlan"]["physicalPlan"] |= members
    return document


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (changed(sinkMode="FAST"), "sinkMode"),
        (changed(**{"@type": "streamSinkV2"}), "streamSinkV2"),
        ({"plan": [{"@type": "ksqlPlanV2"}]}, "ksqlPlanV2"),
        ({"plan": [], "checksum": 1}, "checksum"),
    ],
    ids=["field", "step", "version", "top"],
)
def test_a_plan_of_a_newer_engine_is_refused_by_name(
    tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str], document: Any, named: str
) -> None:
    folder = write(tmp_path / "97.5.0", document)
    assert main(["plans", "explain", folder], lambda: fake) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert named in error
    assert f"{folder}: PLAN_NEWER" in error
    assert f"written by version 97.5.0, and this version, {version('kestrel-sql')}, does not know" in error


def test_diff_says_whether_two_plans_differ(tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = write(tmp_path / "old", plan()), write(tmp_path / "new", changed(topicName="OTHER"))
    assert main(["plans", "diff", old, old], lambda: fake) == ExitCode.OK
    assert main(["plans", "diff", old, f"{new}/plan.json"], lambda: fake) == ExitCode.FAILURES
    assert capsys.readouterr().out.splitlines()[-2:] == ["  - OUT", "  + OTHER"]
    assert main(["plans", "diff", old], lambda: fake) == ExitCode.USAGE
    assert main(["plans", "diff", old, str(tmp_path / "none")], lambda: fake) == ExitCode.USAGE


@pytest.mark.parametrize("action", ["record", "check"])
def test_a_case_that_cannot_be_planned_is_told_and_stops_no_other(
    action: str, tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [
        {"name": name, "statements": [text], "outputs": []} for name, text in (("bad", "UNPLANNED"), ("good", "COPY"))
    ]
    (tmp_path / "test-cases").mkdir()
    (tmp_path / "test-cases" / "x.json").write_text(json.dumps({"tests": cases}), encoding="utf-8")
    assert main(["plans", action, "test-cases"], lambda: fake) == ExitCode.FAILURES
    out = capsys.readouterr().out
    told = "test-cases/x.json::bad: cannot be planned (test-cases/x.json:1)\n  STATEMENT: UNPLANNED means nothing"
    assert told in out
    assert (
        "recorded historic-plans/x/good" if action == "record" else "test-cases/x.json::good: no plan is stored"
    ) in out
    assert out.count("::bad") == 1


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test-cases").mkdir()

    def written(**statements: str) -> str:
        document = {"tests": [{"name": name, "statements": [text], "outputs": []} for name, text in statements.items()]}
        (tmp_path / "test-cases" / "x.json").write_text(json.dumps(document), encoding="utf-8")
        return "test-cases"

    return written


def test_a_case_that_fails_is_not_recorded(
    cases: Callable[..., str], fake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plans", "record", cases(bad="REJECT", good="COPY")], lambda: fake) == ExitCode.FAILURES
    out = capsys.readouterr().out
    assert "test-cases/x.json::bad: not recorded, it does not pass (test-cases/x.json:1)" in out
    assert [path.parent.parent.name for path in Path("historic-plans").rglob("plan.json")] == ["good"]


def test_a_changed_case_is_recorded_again_before_the_application_has_another_version(
    cases: Callable[..., str], fake: Any
) -> None:
    Path("pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    for text in ("COPY", "COPY 2", "COPY 3"):
        assert main(["plans", "record", cases(a=text)], lambda: fake) == ExitCode.OK
    assert sorted(path.parent.name for path in Path("historic-plans").rglob("plan.json")) == [
        "0.1.0",
        "0.1.0.1",
        "0.1.0.2",
    ]
    assert main(["plans", "check", "test-cases"], lambda: fake) == ExitCode.OK


@pytest.mark.parametrize("action", ["run", "prove", "check"])
def test_an_edited_spec_is_noticed(
    action: str, cases: Callable[..., str], fake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cases(a="COPY", b="COPY 2")
    assert main(["plans", "record", path], lambda: fake) == ExitCode.OK
    spec = min(Path("historic-plans").rglob("spec.json"))
    spec.write_text(spec.read_text().replace('"outputs": []', '"outputs": [{"topic": "x"}]'))
    assert main(["plans", action, path if action == "check" else "historic-plans"], lambda: fake) != ExitCode.OK
    assert "the spec was changed after it was recorded" in "".join(capsys.readouterr())


@pytest.mark.parametrize("action", ["run", "prove", "check"])
def test_a_plan_without_a_spec_stops_no_other(
    action: str, cases: Callable[..., str], fake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cases(a="COPY", b="COPY 2")
    assert main(["plans", "record", path], lambda: fake) == ExitCode.OK
    min(Path("historic-plans").rglob("spec.json")).unlink()
    capsys.readouterr()
    assert main(["plans", action, path if action == "check" else "historic-plans"], lambda: fake) != ExitCode.OK
    said = "".join(capsys.readouterr())
    assert "there is no spec.json beside the plan" in said
    assert {"run": "1 passed", "prove": "historic-plans/x/b", "check": "no plan is stored"}[action] in said
