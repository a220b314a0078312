"""ksqlDB's stored plans match their own specs, but for those that the ledger lists.

One in forty-nine with every change, the others nightly; one in seven is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kestrel_qtt.cases.discovery import stored_spec
from kestrel_qtt.cases.known_gaps import load_gaps
from kestrel_qtt.drivers.driver import Driver
from kestrel_qtt.load import load_all
from kestrel_qtt.plan_commands.record import stored_cases
from kestrel_qtt.plans.store import StoredPlan, find_plans
from tests.conformance.corpus_shards import ROOT, SIZE, Shard, assert_as_listed

PLANS = ROOT.parent / "shared" / "ksqldb" / "historic-plans"
LEDGER = ROOT / "tests" / "conformance" / "known-gaps-plans.yaml"
EVERY = 49
READ = 7
"""Of so many plans one is read with every change."""

pytestmark = pytest.mark.conformance
needs_plans = pytest.mark.skipif(not PLANS.is_dir(), reason=f"ksqlDB's plans are not at {PLANS}")


FOUND = find_plans(PLANS) if PLANS.is_dir() else []
"""Every worker collects all tests, and to read all plans takes it five seconds: a test reads its own."""


def shards(plans: Sequence[StoredPlan]) -> list[Sequence[StoredPlan]]:
    """Cut the plans into shards; one that is empty where there are none, for the tests to be skipped."""
    return [plans[start : start + SIZE] for start in range(0, len(plans), SIZE)] or [()]


def assert_they_match(name: str, plans: Sequence[StoredPlan], driver: Driver) -> None:
    loaded = load_all(stored_spec(plan.spec_file, PLANS) for plan in plans)
    assert len(loaded.cases) == len(plans)
    assert_as_listed(Shard(name, loaded.cases), driver, LEDGER)


@needs_plans
@pytest.mark.spark
@pytest.mark.parametrize("plans", shards(FOUND[::EVERY]))
def test_a_share_of_the_plans_matches_or_is_listed(plans: Sequence[StoredPlan], spark_driver: Driver) -> None:
    assert_they_match("a share", plans, spark_driver)


@needs_plans
@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("plans", shards([plan for at, plan in enumerate(FOUND) if at % EVERY]))
def test_the_other_plans_match_or_are_listed(plans: Sequence[StoredPlan], spark_driver: Driver) -> None:
    assert_they_match("the others", plans, spark_driver)


@needs_plans
@pytest.mark.parametrize("every", [READ, pytest.param(1, marks=pytest.mark.nightly)])
def test_plans_can_be_read(every: int) -> None:
    assert len(FOUND) == 2470
    loaded = load_all(stored_spec(plan.spec_file, PLANS) for plan in FOUND[::every])
    assert [str(error) for error in loaded.errors] == []
    assert len(loaded.cases) == len(FOUND[::every])


@needs_plans
def test_every_listed_plan_exists() -> None:
    gaps = load_gaps(LEDGER)
    known = {case.id for case in stored_cases([PLANS]).cases} if gaps else ()
    stale = [f"{gap.file}:{gap.line}: {gap.case}" for name, gap in gaps.items() if name not in known]
    assert not stale, "\n".join(["the ledger lists plans that do not exist", *stale])
