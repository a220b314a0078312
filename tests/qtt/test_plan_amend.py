"""`qtt plans amend`: expected records change by it only, where ksqlDB's engine agrees, and the old ones stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.plans.store import StoredPlan, load_stored, record

REASON = "rule O9.4: a server has a cache"


def expected(value: int, **members: Any) -> dict[str, Any]:
    return {"topic": "OUT", "timestamp": 7, "key": "a", "value": {"N": value}, **members}


def kept(root: Path, outputs: list[dict[str, Any]], **members: Any) -> StoredPlan:
    """A stored plan that gives one record with N = 1.50 and expects `outputs`."""
    case = {
        "name": "plans - copies",
        "statements": ["COPY 'a\nb';"],
        "inputs": [{"topic": "in", "timestamp": 7, "key": "a", "value": {"N": 1}}],
        "outputs": outputs,
        **members,
    }
    stored = record(root, "test-cases/plans.yaml::copies", "1.0.0", json.dumps({"plan": [], "configs": {}}), case)
    assert stored is not None
    return stored


def oracle(folder: Path, **answer: Any) -> Path:
    """A program that keeps the jobs it is given, and gives one answer."""
    program = folder / "oracle.sh"
    text = json.dumps({"id": 0, **answer})
    program.write_text(f"#!/bin/sh\ncat > '{folder}/jobs'\necho 'started'\necho '{text}'\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def agreeing(folder: Path, *values: int) -> Path:
    records = [{"key": "a", "value": {"N": value}, "timestamp": 7, "raw_value": ""} for value in values]
    return oracle(folder, topics={"OUT": {"input": False, "records": records}, "in": {"input": True, "records": []}})


def amended(stored: StoredPlan, fake: Any, *arguments: object, reason: str = REASON) -> int:
    return main(["plans", "amend", str(stored.folder), "--reason", reason, *map(str, arguments)], lambda: fake)


def test_expected_records_are_replaced_where_the_engine_agrees(tmp_path: Path, fake: Any) -> None:
    stored = kept(tmp_path, [expected(2)], properties={"x": "y"})
    plan = stored.plan_file.read_bytes()
    assert amended(stored, fake, "--oracle", agreeing(tmp_path, 1)) == ExitCode.OK
    _, spec = load_stored(stored)
    assert spec["testCase"]["outputs"] == [expected(1)]
    assert spec["amended"] == [{"rules": ["O9.4"], "reason": REASON, "oracle": "agrees", "outputs": [expected(2)]}]
    assert stored.plan_file.read_bytes() == plan
    job = json.loads((tmp_path / "jobs").read_text(encoding="utf-8"))
    assert (job["id"], job["statements"]) == (0, ["COPY 'a\nb';"])
    assert job["properties"] == {"x": "y"}
    assert amended(stored, fake, "--oracle", agreeing(tmp_path, 1)) == ExitCode.OK
    assert len(load_stored(stored)[1]["amended"]) == 1


def test_where_the_engine_gives_other_records_nothing_changes(
    tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = kept(tmp_path, [expected(2)])
    before = stored.spec_file.read_bytes()
    assert amended(stored, fake, "--oracle", agreeing(tmp_path, 1, 3)) == ExitCode.FAILURES
    assert "ksqlDB's engine gives other records" in capsys.readouterr().out
    assert amended(stored, fake, "--oracle", oracle(tmp_path, error="X", message="no")) == ExitCode.FAILURES
    assert "cannot judge it (--without-oracle amends it all the same): X: no" in capsys.readouterr().out
    assert amended(stored, fake, "--oracle", oracle(tmp_path, id=1)) == ExitCode.USAGE
    assert amended(stored, fake, "--oracle", tmp_path / "none") == ExitCode.USAGE
    assert "engine is absent" in capsys.readouterr().err
    assert stored.spec_file.read_bytes() == before


@pytest.mark.rules("O9.4")
def test_the_engine_is_asked_with_the_cache_of_a_server_for_emit_final(tmp_path: Path, fake: Any) -> None:
    stored = kept(tmp_path, [expected(2)], statements=["COPY;", "CREATE TABLE … emit\nfinal;"], properties={"x": "y"})
    assert amended(stored, fake, "--oracle", agreeing(tmp_path, 1)) == ExitCode.OK
    job = json.loads((tmp_path / "jobs").read_text(encoding="utf-8"))
    assert job["properties"] == {"ksql.streams.cache.max.bytes.buffering": "10000000", "x": "y"}


def test_an_amendment_without_the_engine_says_so(tmp_path: Path, fake: Any) -> None:
    stored = kept(tmp_path, [expected(2, partition=3)])
    assert amended(stored, fake, "--without-oracle") == ExitCode.OK
    _, spec = load_stored(stored)
    assert spec["testCase"]["outputs"] == [expected(1, partition=0)]
    assert spec["amended"][0]["oracle"] == "not asked"


@pytest.mark.parametrize(
    ("reason", "told"), [("a cache", "expected a text that names a rule"), ("Z9.9", "unknown rule: Z9.9")]
)
def test_a_reason_names_a_rule(
    tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str], reason: str, told: str
) -> None:
    (tmp_path / "a.md").write_text("**O9.4** A window is emitted.\n", encoding="utf-8")
    stored = kept(tmp_path / "plans", [expected(2)])
    assert amended(stored, fake, "--without-oracle", "--spec", tmp_path, reason=reason) == ExitCode.USAGE
    assert told in capsys.readouterr().err


def test_entries_of_records_that_are_read_now_are_replaced_with_them(tmp_path: Path, fake: Any) -> None:
    stored = kept(tmp_path, [], log=[{"message": "bad"}])
    assert amended(stored, fake, "--without-oracle") == ExitCode.OK
    _, spec = load_stored(stored)
    assert (spec["testCase"]["outputs"], spec["testCase"]["log"]) == ([expected(1)], [])
    assert (spec["amended"][0]["outputs"], spec["amended"][0]["log"]) == ([], [{"message": "bad"}])


def test_a_plan_that_differs_in_more_than_its_records_is_left_alone(
    tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    post = {"sources": [{"name": "NONE", "type": "stream"}]}
    stored = kept(tmp_path, [expected(2)], post=post)
    assert amended(stored, fake, "--without-oracle") == ExitCode.FAILURES
    assert "more than its records differs" in capsys.readouterr().out


def test_a_plan_whose_statements_mean_something_else_today_says_why(tmp_path: Path, fake: Any) -> None:
    stored = kept(tmp_path, [expected(2)], statements=["UNPLANNED;"])
    plan = stored.plan_file.read_bytes()
    assert main(["plans", "prove", str(stored.folder)], lambda: fake) == ExitCode.FAILURES
    assert amended(stored, fake, "--today") == ExitCode.OK
    _, spec = load_stored(stored)
    assert (spec["today"], spec["testCase"]["outputs"]) == (REASON, [expected(2)])
    assert spec["amended"] == [{"rules": ["O9.4"], "reason": REASON, "today": None}]
    assert stored.plan_file.read_bytes() == plan
    assert amended(stored, fake, "--today") == ExitCode.OK
    assert len(load_stored(stored)[1]["amended"]) == 1
    assert main(["plans", "prove", str(stored.folder)], lambda: fake) == ExitCode.OK


def test_statements_that_mean_the_same_today_need_no_reason(
    tmp_path: Path, fake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = kept(tmp_path, [expected(1)], statements=["UNPLANNED;"])
    before = stored.spec_file.read_bytes()
    assert amended(stored, fake, "--today") == ExitCode.FAILURES
    assert "give today what its spec expects" in capsys.readouterr().out
    fake.plan_documents = lambda _: stored.plan_file.read_text(encoding="utf-8")
    assert amended(stored, fake, "--today") == ExitCode.FAILURES
    assert "its statements give the same plan today" in capsys.readouterr().out
    assert stored.spec_file.read_bytes() == before
