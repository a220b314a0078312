"""The rules of the specification: read its pages, and which tests are marked with them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

_ID = r"[A-Z]\d+(?:\.\d+)*"
_RULE = re.compile(rf"(?:\| )?\*\*({_ID})\*\* (.*)")
_PLAN = re.compile(r"`(historic-plans/[\w./-]+)`")


class Rule(msgspec.Struct, frozen=True):
    """One rule. `text` is its paragraph or row without the id; `line` counts from 1."""

    id: str
    file: Path
    line: int
    text: str

    @property
    def plans(self) -> tuple[str, ...]:
        """Return the folders of stored plans that prove the rule: plans that today's planner does not write."""
        return tuple(_PLAN.findall(self.text))


class RuleError(Exception):
    """A page defines an id twice."""


def read_rules(folder: Path) -> dict[str, Rule]:
    """Return the rules of all pages in `folder`, in the order of the pages.

    Raises:
        RuleError: two rules have the same id.
    """
    rules: dict[str, Rule] = {}
    for page in sorted(folder.glob("*.md")):
        for rule in _rules_of(page):
            if rule.id in rules:
                first = rules[rule.id]
                raise RuleError(f"{page}:{rule.line}: {rule.id} is a rule already, at {first.file}:{first.line}")
            rules[rule.id] = rule
    return rules


def _rules_of(page: Path) -> Iterator[Rule]:
    lines = page.read_text(encoding="utf-8").splitlines()
    for at, line in enumerate(lines):
        if found := _RULE.match(line):
            below = [] if line.startswith("|") else _paragraph(lines[at + 1 :])
            yield Rule(found[1], page, at + 1, " ".join([found[2].strip(" |"), *below]))


def _paragraph(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if not line.strip():
            return
        yield line.strip()


def sections(rules: Iterable[str]) -> set[str]:
    """Return the ids of rules and of their sections: `L4.6.2` is in `L4.6` and in `L4`."""
    return {".".join(parts[:n]) for parts in (rule.split(".") for rule in rules) for n in range(1, len(parts) + 1)}


def marked_tests(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the tests below `folder` by the rules in their `pytest.mark.rules(…)`, without importing them."""
    tests: dict[str, list[str]] = defaultdict(list)
    for file in sorted(folder.rglob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                for rule in _marks(node):
                    tests[rule].append(f"{file.as_posix()}::{node.name}")
    return {rule: tuple(names) for rule, names in tests.items()}


def _marks(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rules":
            yield from (ast.literal_eval(argument) for argument in decorator.args)
