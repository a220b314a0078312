from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.errors import StatementError
from kestrel_sql.importer.report import Report, Verdict, import_report
from tests.engine.plan.plan_samples_text import aggregate_plan


def backup(tmp_path: Path, *commands: tuple[str, Any]) -> Report:
    file = tmp_path / "backup"
    file.write_text("\n".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in commands), encoding="utf-8")
    return import_report(file)


def verdicts(report: Report) -> list[Verdict]:
    return [answer.verdict for answer in report.answers]


def planned(number: int) -> dict[str, Any]:
    return {"statement": "…", "plan": aggregate_plan()["plan"][number], "originalProperties": {}}


def test_the_plans_of_a_folder_are_tried_one_by_one(tmp_path: Path) -> None:
    good, bad = aggregate_plan(), aggregate_plan()
    bad["plan"][1]["queryPlan"]["physicalPlan"]["source"]["source"]["aggregationFunctions"] = ["NOPE(V)"]
    for name, document in (("a", good), ("b", bad), ("c", {"plan": [{"@type": "ksqlPlanV9"}]})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.json").write_text(json.dumps(document), encoding="utf-8")
    report = import_report(tmp_path)
    assert verdicts(report) == [Verdict.RUNS, Verdict.RUNS, Verdict.RUNS, Verdict.REFUSED, Verdict.REFUSED]
    assert [answer.where for answer in report.answers][::2] == ["a/plan.json", "b/plan.json", "c/plan.json"]
    assert "NOPE" in report.answers[3].reason
    assert "ksqlPlanV9" in report.answers[4].reason
    assert not report.is_complete
    assert verdicts(import_report(tmp_path / "a" / "plan.json")) == [Verdict.RUNS, Verdict.RUNS]


def test_commands_build_on_each_other(tmp_path: Path) -> None:
    report = backup(
        tmp_path,
        ("stream/IN/create", planned(0)),
        ("table/OUT/create", planned(1)),
        (
            "stream/Z/create",
            {"statement": 'CREATE STREAM Z AS SELECT K, V FROM "IN";'.replace('"IN"', "`IN`"), "plan": None},
        ),
        ("terminate/CTAS_OUT_0/execute", {"statement": "TERMINATE CTAS_OUT_0;", "plan": None}),
        ("terminate/CTAS_OUT_0/execute", {"statement": "TERMINATE CTAS_OUT_0;", "plan": None}),
    )
    assert verdicts(report) == [Verdict.RUNS, Verdict.RUNS, Verdict.RUNS, Verdict.NOTHING, Verdict.NOTHING]
    assert [answer.query for answer in report.answers][:3] == [None, "CTAS_OUT_0", "CSAS_Z_0"]
    assert [answer.reason for answer in report.answers][3:] == [
        "TERMINATE CTAS_OUT_0",
        "the query CTAS_OUT_0 is not running here",
    ]
    assert report.is_complete


def test_a_refused_statement_leaves_the_others(tmp_path: Path) -> None:
    newer = planned(1)
    newer["plan"]["queryPlan"]["physicalPlan"]["sinkMode"] = "FAST"
    report = backup(
        tmp_path,
        ("stream/IN/create", planned(0)),
        ("table/NEW/create", newer),
        ("x", {"statement": "SELEC;"}),
        ("table/OUT/create", planned(1)),
    )
    assert verdicts(report) == [Verdict.RUNS, Verdict.REFUSED, Verdict.REFUSED, Verdict.RUNS]
    assert "sinkMode" in report.answers[1].reason
    assert report.answers[2].code == "SYNTAX"


def test_the_report_as_text_and_json(tmp_path: Path) -> None:
    report = backup(tmp_path, ("stream/IN/create", planned(0)), ("k", {"statement": 1}))
    assert str(report).splitlines()[-1] == "1 runs, 1 refused"
    assert "REFUSED         k: (no statement)" in str(report)
    document = json.loads(report.to_json())
    assert document["summary"] == {"runs": 1, "refused": 1, "nothing": 0}
    assert [statement["verdict"] for statement in document["statements"]] == ["runs", "refused"]
    assert str(Report(())) == "there are no statements"


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match=r"no plan\.json"):
        import_report(tmp_path)
    with pytest.raises(StatementError, match="cannot be read"):
        import_report(tmp_path / "nothing")
