from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.plan_commands.record import compact_plans
from kestrel_qtt.plans.store import find_plans, record

FORMATS = {"keyFormat": {"format": "KAFKA"}, "valueFormat": {"format": "JSON"}}
CREATE = {"@type": "createStreamV1", "sourceName": "A", "topicName": "a", "schema": "`V` INTEGER", "formats": FORMATS}
CASE: dict[str, Any] = {"name": "c", "statements": ["CREATE ..."], "outputs": []}


def plan(text: str = "x", **members: Any) -> str:
    statement = {"@type": "ksqlPlanV1", "statementText": text, "ddlCommand": {**CREATE, **members}, "queryPlan": None}
    return json.dumps({"plan": [statement], "configs": {}})


def keep(root: Path, version: str, text: str, case_id: str = "x", **case: Any) -> None:
    folder = root / ".probe"
    stored = record(folder / version, case_id, version, text, {**CASE, **case})
    assert stored is not None
    target = root / stored.home.name / version
    target.parent.mkdir(parents=True, exist_ok=True)
    stored.folder.rename(target)


def left(root: Path) -> list[str]:
    compact_plans([root], dry_run=False)
    return [f"{stored.home.name}/{stored.version}" for stored in find_plans(root)]


def test_a_plan_that_equals_a_newer_one_goes(tmp_path: Path) -> None:
    for version in ("1.0.0.dev1", "1.0.0.dev2", "1.0.0"):
        keep(tmp_path, version, plan(version))
    assert left(tmp_path) == ["x/1.0.0"]


def test_the_newest_plan_stays_whatever_it_equals(tmp_path: Path) -> None:
    keep(tmp_path, "1.0.0", plan(), case_id="x")
    keep(tmp_path, "1.0.0", plan(), case_id="y")
    assert left(tmp_path) == ["x/1.0.0", "y/1.0.0"]


@pytest.mark.parametrize(
    "older",
    [
        {"text": plan(schema="`V` BIGINT")},
        {"text": plan(), "outputs": [{"topic": "a", "value": 1}]},
        {"text": plan(orReplace=True)},
    ],
    ids=["meaning", "case", "switch"],
)
def test_a_plan_that_differs_stays(tmp_path: Path, older: dict[str, Any]) -> None:
    keep(tmp_path, "1.0.0", **older)
    keep(tmp_path, "1.1.0", plan())
    assert left(tmp_path) == ["x/1.0.0", "x/1.1.0"]


def test_the_only_plan_with_a_spelling_stays(tmp_path: Path) -> None:
    keep(tmp_path, "1.0.0", plan(keyField="V"))
    keep(tmp_path, "1.1.0", plan(keyField="V"))
    keep(tmp_path, "1.2.0", plan())
    assert left(tmp_path) == ["x/1.0.0", "x/1.2.0"]


def test_a_plan_with_a_checkpoint_and_one_by_hand_stay(tmp_path: Path) -> None:
    for version in ("1.0.0-by-hand", "1.1.0", "1.2.0"):
        keep(tmp_path, version, plan())
    (tmp_path / "x" / "1.1.0" / "checkpoint-1.1.0.zip").write_bytes(b"")
    assert left(tmp_path) == ["x/1.0.0-by-hand", "x/1.1.0", "x/1.2.0"]


def test_a_dry_run_only_tells(tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("1.0.0", "1.1.0"):
        keep(tmp_path, version, plan())
    assert main(["plans", "compact", str(tmp_path), "--dry-run"], lambda: fake) == ExitCode.OK
    assert f"would remove {tmp_path}/x/1.0.0: it equals 1.1.0" in capsys.readouterr().out
    assert len(find_plans(tmp_path)) == 2
