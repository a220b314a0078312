"""Rules are read from their pages, found where they are cited, and counted with what else cases reach."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kestrel_qtt.cli.main import main
from kestrel_qtt.coverage.rules import RuleError, marked_tests, read_rules, sections
from tests.test_spec import citations

PAGE = """# A page

**L1.1** One
and its end.

| Rule | What |
|---|---|
| **L2.1** | two | cells |

`rules L1.1`, and **bold** text
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    folder = tmp_path / "spec"
    folder.mkdir()
    (folder / "language.md").write_text(PAGE)
    return folder


def test_a_rule_is_a_paragraph_or_a_row(spec: Path) -> None:
    assert [(rule.id, rule.line, rule.text) for rule in read_rules(spec).values()] == [
        ("L1.1", 3, "One and its end."),
        ("L2.1", 8, "two | cells"),
    ]


def test_an_id_is_given_once(spec: Path) -> None:
    (spec / "other.md").write_text("**L2.1** Two again.\n")
    with pytest.raises(RuleError, match=r"other\.md:1: L2\.1 is a rule already, at .*language\.md:8"):
        read_rules(spec)


def test_a_rule_stands_in_its_sections() -> None:
    assert sections(["L4.6.2"]) == {"L4.6.2", "L4.6", "L4"}


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("as rule L4.6.2 says", ["L4.6.2"]),
        ("see rules L5, L6 and N11", ["L5", "L6", "N11"]),
        ("(rules L4.3\n    and L4.5)", ["L4.3", "L4.5"]),
        ("the rules of L4", []),
        ("ruler L4", []),
    ],
)
def test_citations(text: str, cited: list[str]) -> None:
    assert [rule for _, rule in citations(text)] == cited


def test_a_citation_has_its_line() -> None:
    assert list(citations("\n\nrule N1.2")) == [(3, "N1.2")]


def test_marks_of_tests_are_read_without_importing_them(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        'import nowhere\n@pytest.mark.rules("P1.1", "P1.2")\ndef test_one(): ...\n@other\ndef test_two(): ...\n'
    )
    test = f"{(tmp_path / 'test_a.py').as_posix()}::test_one"
    assert marked_tests(tmp_path) == {"P1.1": (test,), "P1.2": (test,)}


def test_the_command_counts(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = tmp_path / "test-cases"
    cases.mkdir()
    statement = "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    select = "CREATE STREAM t AS SELECT ABS(a) AS b FROM s;"
    good = {"name": "good", "rules": ["L1.1"], "statements": [statement, select], "outputs": []}
    bad = {"name": "bad", "statements": ["SELECT FLOOR(1);"], "expectedException": {"message": "x"}}
    (cases / "a.json").write_text(json.dumps({"tests": [good, bad]}))
    report = tmp_path / "r.json"
    options = ["--spec", str(spec), "--tests", str(tmp_path), "--plans", str(tmp_path / "none"), "--json", str(report)]
    assert main(["coverage", str(cases), *options, "--missing"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["rules: 1 of 2", "     0     0  L2.1  two | cells"]
    written = json.loads(report.read_text())
    assert written["rules"] == {"L1.1": ["test-cases/a.json::good"], "L2.1": []}
    assert written["functions"]["ABS"] == ["test-cases/a.json::good"]
    assert written["functions"]["FLOOR"] == []


def test_a_stored_plan_says_what_a_case_reaches(capsys: pytest.CaptureFixture[str]) -> None:
    cases = Path(__file__).parents[2] / "test-cases" / "select" / "projection.yaml"
    assert main(["coverage", str(cases)]) == 0
    counts = {line.split()[-1]: line.split()[0] for line in capsys.readouterr().out.splitlines() if ":" not in line}
    assert int(counts["streamSelectV1"]) > 5
    assert counts["JSON"] != "0"
    assert counts["tableSuppressV1"] == "0"
