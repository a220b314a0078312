"""Remove, at a release, stored plans that repeat another plan of the same case.

A plan stays if it is the newest of its case, was written by hand, has a checkpoint, holds a fact of the format that no
other plan holds, or differs in meaning or in its case from every plan that stays. Facts count as spelled, because
today's codec no longer writes some old spellings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kestrel_qtt.cases.model import Json
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.plans.checkpoints import find
from kestrel_qtt.plans.store import StoredPlan, load_stored, newest_plans

FactsOf = Callable[[Json], frozenset[str]]
Meaning = Callable[[str, str], Any]


class Decision(msgspec.Struct, frozen=True):
    """The decision about one plan: it is removed in favour of `equal_to`, or it stays because of `reason`."""

    plan: StoredPlan
    equal_to: StoredPlan | None = None
    reason: str = ""


def choose(stored: Sequence[StoredPlan], facts_of: FactsOf, meaning_of: Meaning) -> list[Decision]:
    """Decide for each plan whether it stays.

    `meaning_of` maps the text and name of a plan to a value that is equal for plans that behave alike.

    Raises:
        PlanStoreError: a plan that cannot be read.
    """
    contents = {plan: _Content.read(plan, facts_of, meaning_of) for plan in stored}
    holders = Counter(fact for content in contents.values() for fact in content.facts)
    newest = newest_plans(stored)
    decisions = []
    kept: dict[Path, list[StoredPlan]] = {}
    for plan in sorted(stored, key=lambda each: (each.home, each.age), reverse=True):
        content = contents[plan]
        reason = _reason(plan, newest[plan.home], content, holders)
        equal = next((other for other in kept.get(plan.home, ()) if contents[other].same_as(content)), None)
        if reason or equal is None:
            kept.setdefault(plan.home, []).append(plan)
            decisions.append(Decision(plan, reason=reason or "it differs from the plans that stay"))
        else:
            holders.subtract(content.facts)
            decisions.append(Decision(plan, equal_to=equal))
    return decisions[::-1]


class _Content(msgspec.Struct, frozen=True):
    facts: frozenset[str]
    meaning: Any
    case: Any

    @staticmethod
    def read(plan: StoredPlan, facts_of: FactsOf, meaning_of: Meaning) -> _Content:
        text, spec = load_stored(plan)
        return _Content(
            facts_of(parse_json(text)), meaning_of(text, str(plan.folder)), (spec.get("testCase"), spec.get("schemas"))
        )

    def same_as(self, other: _Content) -> bool:
        """Whether the other plan runs alike and is judged alike."""
        return (self.meaning, self.case) == (other.meaning, other.case)


def _reason(plan: StoredPlan, newest: StoredPlan, content: _Content, holders: Counter[str]) -> str:
    if plan == newest:
        return "it is the newest of its case"
    if plan.is_by_hand:
        return "it was written by hand"
    if find(plan.folder):
        return "it has a checkpoint"
    alone = _alone(content.facts, holders)
    return f"only it has {', '.join(alone)}" if alone else ""


def _alone(facts: Iterable[str], holders: Counter[str]) -> list[str]:
    return sorted(fact for fact in facts if holders[fact] == 1)
