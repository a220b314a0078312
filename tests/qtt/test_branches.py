"""Which branches of statements cases reach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cli.main import ExitCode, main

APP = """\
CREATE STREAM O (ID INT KEY, CUST STRING, N INT) WITH (kafka_topic='o', value_format='JSON', partitions=1);
CREATE TABLE C (ID STRING PRIMARY KEY, NAME STRING) WITH (kafka_topic='c', value_format='JSON', partitions=1);
CREATE STREAM J AS
  SELECT C.ID AS CUST, O.N AS N,
    CASE WHEN O.N > 10 THEN 'big' WHEN O.N / 0 > 1 THEN 'odd' ELSE 'small' END AS LABEL
  FROM O JOIN C ON O.CUST = C.ID
  WHERE O.N > 0;
CREATE TABLE W AS
  SELECT CUST, COUNT(*) AS CNT FROM J WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 0 SECONDS)
  GROUP BY CUST HAVING COUNT(*) > 1;
"""
FIRST = """
      - {topic: c, key: a, value: {NAME: A}, timestamp: 1}
      - {topic: o, key: 1, value: {CUST: a, N: 20}, timestamp: 10}
      - {topic: o, key: 1, value: {CUST: a, N: 30}, timestamp: 3000}
      - {topic: o, key: 1, value: {CUST: a, N: -1}, timestamp: 3000}"""
SECOND = """
      - {topic: o, key: 1, value: {CUST: none, N: 20}, timestamp: 10}
      - {topic: c, key: a, value: null, timestamp: 20}"""
CASE = "  - name: {name}\n    statements: {{file: app.sql}}\n    inputs: {inputs}\n    outputs: []\n"


def test_a_query_that_several_cases_have_in_common_runs_once(
    tmp_path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.sql").write_text(APP)
    Path("cases.yaml").write_text("tests:\n" + CASE.format(name="first", inputs=FIRST))
    main(["coverage", "--branches", "app.sql"], lambda: fake)
    assert [options.reuse for options in fake.options] == [True]


def test_branches_of_an_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.sql").write_text(APP)
    cases = CASE.format(name="first", inputs=FIRST) + CASE.format(name="second", inputs=SECOND)
    Path("cases.yaml").write_text(f"tests:\n{cases}")
    assert main(["coverage", "--branches", "app.sql", "--json", "branches.json", "--html", "report"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "8 of 16 branches are reached" in Path("report/coverage.html").read_text()
    found = {each["branch"]: each for each in json.loads(Path("branches.json").read_text())}
    reached = {name: [case.rpartition("::")[2] for case in each["cases"]] for name, each in found.items()}
    assert reached == {
        "a record of topic o that cannot be read": [],
        "a record of topic c that cannot be read": [],
        "JOIN C finds a match": ["first"],
        "JOIN C finds no match": ["second"],
        "WHERE (O.N > 0) is true": ["first"],
        "WHERE (O.N > 0) is false": ["first"],
        "WHERE (O.N > 0) is NULL": [],
        "CASE … WHEN (O.N > 10)": ["first"],
        "CASE … WHEN ((O.N / 0) > 1)": [],
        "CASE … ELSE": [],
        "a tombstone in topic c": ["second"],
        "an expression that fails for a record": [],
        "HAVING (COUNT(*) > 1) is true": [],
        "HAVING (COUNT(*) > 1) is false": ["first"],
        "HAVING (COUNT(*) > 1) is NULL": [],
        "a window that closes": ["first"],
    }
    assert found["WHERE (O.N > 0) is true"]["place"] == "app.sql:7:9"
    assert "app.sql:5:35: J: CASE … WHEN ((O.N / 0) > 1): not reached" in out
    assert "8 of 16 branches are reached" in out


def test_branches_of_a_script_that_no_case_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.sql").write_text(APP)
    assert main(["coverage", "--branches", "app.sql"]) == ExitCode.USAGE
    assert "no case below" in capsys.readouterr().err
