"""Every rule of the specification is proved by a case, a test or a stored plan, and every named rule exists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.coverage.rules import Rule, marked_tests, read_rules, sections
from kestrel_qtt.load import load_all

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "docs" / "spec"
LETTERS = {
    "language": "L",
    "schema-and-naming": "N",
    "operators": "O",
    "errors": "E",
    "formats": "F",
    "functions": "U",
    "kafka-metadata": "K",
    "plan-format": "P",
    "qtt-format": "Q",
    "rest-api": "R",
}
ID = r"[A-Z]\d+(?:\.\d+)*"
CITED = re.compile(rf"\brules?\s+{ID}(?:(?:,\s+and|,|\s+and|\s+to)\s+{ID})*")
CITING = [
    path for folder in ("engine", "qtt", "tests", "docs") for path in (ROOT / folder).rglob("*") if path.is_file()
]


@cache
def rules() -> Mapping[str, Rule]:
    return read_rules(SPEC)


@cache
def named_by_cases() -> dict[str, list[str]]:
    """Return the rules that cases name, each with the ids of the cases."""
    loaded = load_all(find_files([ROOT / "test-cases", ROOT / "tests" / "kafka" / "cases"]))
    assert not loaded.errors
    named: dict[str, list[str]] = {}
    for case in loaded.cases:
        for rule in case.rules:
            named.setdefault(rule, []).append(case.id)
    return named


@cache
def named_by_tests() -> Mapping[str, tuple[str, ...]]:
    return marked_tests(ROOT / "tests")


def test_every_rule_is_proved_by_a_case_a_test_or_a_stored_plan() -> None:
    proved = named_by_cases().keys() | named_by_tests().keys() | {rule.id for rule in rules().values() if rule.plans}
    unproved = [
        f"{rule.file.name}:{rule.line}: {rule.id} {rule.text}" for rule in rules().values() if rule.id not in proved
    ]
    assert not unproved, "\n".join([f"{len(unproved)} rules are proved by nothing", *unproved])


@pytest.mark.rules("Q2.3")
def test_a_case_names_rules_that_exist() -> None:
    assert {rule: ids for rule, ids in named_by_cases().items() if rule not in rules()} == {}


def test_a_test_names_rules_that_exist() -> None:
    assert {rule: tests for rule, tests in named_by_tests().items() if rule not in rules()} == {}


def citations(text: str) -> Iterator[tuple[int, str]]:
    """The rules and sections that a text cites (`rule L4.6.2`, `rules L4.6 and N9`), with their lines."""
    for found in CITED.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield from ((line, rule) for rule in re.findall(ID, found[0]))


def test_what_is_cited_exists() -> None:
    known = sections(rules())
    unknown = [
        f"{path.relative_to(ROOT)}:{line}: {rule}"
        for path in CITING
        if path.suffix in (".py", ".md", ".lark") and path.name != "test_coverage.py"
        for line, rule in citations(path.read_text(encoding="utf-8"))
        if rule not in known
    ]
    assert unknown == []


def test_the_letter_of_a_rule_is_that_of_its_page() -> None:
    assert {rule.file.stem: rule.id[0] for rule in rules().values()} == LETTERS
    assert [rule.id for rule in rules().values() if rule.id[0] != LETTERS[rule.file.stem]] == []


def test_every_section_of_a_rule_has_a_heading() -> None:
    headings = {
        found
        for page in LETTERS
        for found in re.findall(
            r"^##+ ([A-Z]\d+(?:\.\d+)*) ", (SPEC / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert sections(rules()) - rules().keys() <= headings
