"""Which functions a case may call.

Those that ship, those of `--functions`, and in ksqlDB's corpus its test functions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cli.main import ExitCode, main
from tests.engine.functions.test_user import GOOD

SOURCE = "CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"


def case(call: str, value: Any) -> dict[str, Any]:
    return {
        "name": call.partition("(")[0],
        "statements": [SOURCE, f"CREATE STREAM O AS SELECT K, {call} AS R FROM S;"],
        "inputs": [{"topic": "s", "key": "a", "value": {"V": 2}}],
        "outputs": [{"topic": "O", "key": "a", "value": {"R": value}}],
    }


OWN, USER, CORPUS = case("ABS(V)", 2), case("TRIPLE(V)", 6), case("TEST_UDF(V, 'x')", "doStuffIntString")


def write(path: Path, *cases: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"tests": list(cases)}))
    return path


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(GOOD, encoding="utf-8")
    return path


@pytest.mark.rules("Q11.1")
def test_only_cases_of_ksqldb_call_its_test_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = write(tmp_path / "test-cases" / "a.json", CORPUS)
    foreign = write(tmp_path / "query-validation-tests" / "a.json", CORPUS)
    assert main(["plans", "explain", str(own)]) == ExitCode.USAGE
    assert "TEST_UDF" in capsys.readouterr().err
    assert main(["plans", "explain", str(foreign)]) == ExitCode.OK
    assert "TEST_UDF" in capsys.readouterr().out


@pytest.mark.spark
def test_plans_of_ksqldb_call_its_test_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = write(tmp_path / "query-validation-tests" / "a.json", CORPUS)
    assert main(["plans", "record", str(foreign), "--plans", str(tmp_path / "stored")]) == ExitCode.OK
    (plan,) = (tmp_path / "stored").rglob("plan.json")
    capsys.readouterr()
    assert main(["plans", "explain", str(plan)]) == ExitCode.USAGE
    assert "TEST_UDF" in capsys.readouterr().err
    spec = json.loads((plan.parent / "spec.json").read_text())
    del spec["hash"], spec["specHash"]
    (plan.parent / "spec.json").write_text(json.dumps(spec))
    assert main(["plans", "explain", str(plan)]) == ExitCode.OK


@pytest.mark.spark
def test_functions_of_a_file(tmp_path: Path, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "test-cases" / "a.json", USER)
    assert main(["explain", str(path), "--functions", str(mine)]) == ExitCode.OK
    assert "-- CSAS_O_0, stage 0" in capsys.readouterr().out
    store = ["--functions", str(mine), "--plans", str(tmp_path / "stored")]
    assert main(["plans", "record", str(path), *store]) == ExitCode.OK
    assert main(["plans", "check", str(path), *store]) == ExitCode.OK
    assert main(["plans", "check", str(path), *store[2:]]) == ExitCode.FAILURES
    (plan,) = (tmp_path / "stored").rglob("plan.json")
    assert main(["plans", "explain", str(plan), *store]) == ExitCode.OK


@pytest.mark.parametrize(
    "command", [["run"], ["list"], ["explain"], ["approve"], ["plans", "run"], ["plans", "resume"]]
)
def test_a_file_without_functions(
    tmp_path: Path, mine: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "test-cases" / "a.json", USER)
    mine.write_text("x = 1")
    assert main([*command, str(tmp_path / "test-cases"), "--functions", str(mine)]) == ExitCode.USAGE
    assert "declares no functions" in capsys.readouterr().err


@pytest.mark.spark
def test_cases_with_different_functions_run_together(
    tmp_path: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The corpus knows both the file's functions and its own; an own case has no TEST_UDF."""
    write(tmp_path / "test-cases" / "a.json", CORPUS, OWN, USER)
    write(tmp_path / "query-validation-tests" / "a.json", CORPUS, USER)
    folders = [str(tmp_path / "test-cases"), str(tmp_path / "query-validation-tests")]
    assert main(["run", *folders, "--functions", str(mine)]) == ExitCode.FAILURES
    out = capsys.readouterr().out
    assert "4 passed, 1 failed" in out
    assert "FAILED test-cases/a.json::test-udf" in out
