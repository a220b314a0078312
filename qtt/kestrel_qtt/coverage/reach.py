"""Collect the functions, steps and formats in the plans of cases, and the rules that the cases name."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from kestrel_qtt.cases.model import Case, Json
from kestrel_qtt.coverage.rules import Rule
from kestrel_qtt.plans.store import case_folder, find_plans, newest_plans, read_plan
from kestrel_sql.formats.table import FORMATS
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.table import STEPS

_CALL = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)\s*\(")

Reached = Mapping[str, tuple[str, ...]]
"""Ids of cases by the name of what they reach; what no case reaches has none."""


class Reach(msgspec.Struct, frozen=True):
    """The rules, functions, steps and formats that cases reach."""

    rules: Reached
    functions: Reached
    steps: Reached
    formats: Reached


def reach(cases: Iterable[Case], plans: Path, rules: Iterable[Rule]) -> Reach:
    """Inspect the `rules` of each case and its newest stored plan, which is its own or below `plans`.

    Stored plans that a rule names count as its first cases. A case without a stored plan reaches the functions that its
    statements call, unless it expects a refusal.
    """
    stored = newest_plans(find_plans(plans)) if plans.is_dir() else {}
    found: dict[str, dict[str, list[str]]] = {
        "rules": {rule.id: list(rule.plans) for rule in rules},
        "functions": {name: [] for name in FUNCTIONS},
        "steps": {tag: [] for tag in STEPS},
        "formats": {name: [] for name in FORMATS},
    }
    for case in cases:
        kept = stored.get(plans / case_folder(case.id))
        file = case.plan or (None if kept is None else kept.plan_file)
        for kind, names in _names(case, None if file is None else read_plan(file)).items():
            for name in sorted(names & found[kind].keys()):
                found[kind][name].append(case.id)
    return Reach(**{kind: {name: tuple(ids) for name, ids in names.items()} for kind, names in found.items()})


def _names(case: Case, plan: str | None) -> dict[str, set[str]]:
    names: dict[str, set[str]] = defaultdict(set, rules=set(case.rules))
    if plan is not None:
        for member, value in _members(json.loads(plan)):
            if member == "@type":
                names["steps"].add(value)
            elif member == "format":
                names["formats"].add(value)
            elif member != "statementText":
                names["functions"] |= _calls(value)
    elif case.expected_exception is None:
        names["functions"] |= {name for text in case.statements for name in _calls(text)}
    return names


def _calls(text: str) -> set[str]:
    return {name.upper() for name in _CALL.findall(text)}


def _members(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the strings of a document, each with the member that holds it or its list."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for member, below in value.items():
            yield from _members(below, member)
    elif isinstance(value, list):
        for item in value:
            yield from _members(item, name)
