from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from kestrel_qtt.cases.model import Case, Outcome, Result, Status
from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.drivers.driver import PlanningError
from kestrel_qtt.report.ci import github_annotations, place_of
from kestrel_qtt.report.text import coloured

INPUTS = [{"topic": "IN", "value": {"A": 1}, "timestamp": 5}]
GOOD = {"name": "good one", "statements": ["COPY"], "inputs": INPUTS, "outputs": [{"topic": "OUT", "value": {"A": 1}}]}
BAD = {**GOOD, "name": "bad, 100%: one", "outputs": [{"topic": "OUT", "value": {"A": "\u0001"}}]}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_text(json.dumps({"tests": [GOOD, BAD]}, indent=2))
    return "x.json"


def test_junit_has_the_seconds_of_each_case(path: str, fake: Any) -> None:
    assert main(["run", path, "--junit", "out/qtt.xml"], lambda: fake) == ExitCode.FAILURES
    suite = ET.parse("out/qtt.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    good, bad = suite
    assert (good.get("classname"), good.get("name"), good.get("time")) == ("x.json", "good-one", "0.0100")
    assert good.find("failure") is None
    assert [each.attrib for each in good.iter("property")] == [{"name": "carrier", "value": "process"}]
    failure = bad.find("failure")
    assert failure is not None
    assert "value.A" in str(failure.text)
    assert bad.get("line") == "27"


def test_annotations_are_at_the_line_of_the_record(path: str, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", path, "--github"], lambda: fake)
    (told,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("::error"))
    assert told.startswith(
        "::error file=x.json,line=41,title=x - bad%2C 100%25%3A one::topic OUT, record 0 (x.json:41):%0A"
    )


def test_an_annotation_at_the_place_in_a_script() -> None:
    case = Case(id="t/x.yaml::a", file=Path("t/x.yaml"), line=3, name="a", statements=("",), script=Path("app.sql"))
    result = Result(case, Status.FAILED, 0.0, "statement 1 was rejected: no\n  at app.sql:5:14\n    SELECT")
    assert place_of(result) == (Path("app.sql"), 5)
    assert github_annotations([Result(case, Status.PASSED), Result(case, Status.SKIPPED, 0.0, "known")]) == []
    assert place_of(Result(case, Status.FAILED, 0.0, "no")) == (Path("t/x.yaml"), 3)


def test_ctrl_c_ends_with_a_summary(path: str, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run

    def interrupted(cases: Sequence[Case], options: Any) -> Iterator[tuple[Case, Outcome, float]]:
        if any("bad" in case.id for case in cases):
            raise KeyboardInterrupt
        yield from run(cases, options)

    fake.run = interrupted
    code = main(["run", path, "--jobs", "1", "--group-size", "1", "--json", "r.json"], lambda: fake)
    out = capsys.readouterr().out
    assert (code, fake.closed) == (ExitCode.INTERRUPTED, 1)
    assert "interrupted: 1 of 2 cases did not end\n1 passed in" in out
    assert json.loads(Path("r.json").read_text())["summary"]["passed"] == 1
    fake.run = run
    assert main(["run", path, "--jobs", "2", "--group-size", "1"], lambda: fake) == ExitCode.FAILURES


def test_ctrl_c_outside_of_a_run(path: str, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> Any:
        raise KeyboardInterrupt

    assert main(["explain", path], interrupted) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "qtt: interrupted\n"


FAILURE = """FAILED x.json::a
  x.json:3: a
  topic OUT, record 0 (x.json:7):
    column   expected     actual
    value.A  1 (integer)  2 (integer)
    caused by the input of topic IN in x.json:5
  topic OUT, record 1:
    value
      expected  "a b" (string)
      actual    "c" (string)
"""


def test_differences_are_coloured_on_a_terminal_only() -> None:
    shown = io.StringIO()
    Console(file=shown, force_terminal=True, color_system="standard", width=200).print(coloured(FAILURE))
    text = shown.getvalue()
    assert "\x1b[1;31mFAILED\x1b[0m" in text
    assert "value.A  \x1b[32m1 (integer)  \x1b[0m\x1b[31m2 (integer)" in text
    assert '\x1b[32m      expected  "a b" (string)' in text
    assert '\x1b[31m      actual    "c" (string)' in text
    plain = io.StringIO()
    Console(file=plain, width=200).print(coloured(FAILURE), end="")
    assert plain.getvalue() == FAILURE


def test_explain_fails_where_a_case_cannot_be_planned(path: str, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def explain(case: Case) -> str:
        raise PlanningError("no function UCAS\n  at app.sql:1:2")

    assert main(["explain", path], lambda: fake) == ExitCode.OK
    fake.explain = explain
    assert main(["explain", path, "-k", "good"], lambda: fake) == ExitCode.FAILURES
    assert "cannot be planned: no function UCAS\n  at app.sql:1:2" in capsys.readouterr().out
