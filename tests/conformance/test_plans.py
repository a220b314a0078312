"""ksqlDB's stored plans match their own specs, but for those that the ledger lists.

A tenth of them in CI, the rest nightly.
"""

from __future__ import annotations

from functools import cache

import pytest

from kestrel_qtt.cases.known_gaps import load_gaps
from kestrel_qtt.drivers.driver import Driver
from kestrel_qtt.load import Loaded
from kestrel_qtt.plan_commands.record import stored_cases
from tests.conformance.corpus_shards import ROOT, Shard, assert_as_listed, shards

PLANS = ROOT.parent / "shared" / "ksqldb" / "historic-plans"
LEDGER = ROOT / "tests" / "conformance" / "known-gaps-plans.yaml"
EVERY = 10

pytestmark = pytest.mark.conformance
needs_plans = pytest.mark.skipif(not PLANS.is_dir(), reason=f"ksqlDB's plans are not at {PLANS}")


@cache
def stored() -> Loaded:
    """Load the plans; nothing where they are absent."""
    return stored_cases([PLANS]) if PLANS.is_dir() else Loaded()


TENTH = shards(stored().cases[::EVERY]) or [Shard("absent", ())]
REST = shards([case for at, case in enumerate(stored().cases) if at % EVERY]) or [Shard("absent", ())]


@needs_plans
@pytest.mark.spark
@pytest.mark.parametrize("shard", TENTH, ids=[shard.name for shard in TENTH])
def test_a_tenth_of_the_plans_match_or_are_listed(shard: Shard, spark_driver: Driver) -> None:
    assert_as_listed(shard, spark_driver, LEDGER)


@needs_plans
@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("shard", REST, ids=[shard.name for shard in REST])
def test_the_other_plans_match_or_are_listed(shard: Shard, spark_driver: Driver) -> None:
    assert_as_listed(shard, spark_driver, LEDGER)


@needs_plans
def test_every_plan_can_be_read() -> None:
    assert [str(error) for error in stored().errors] == []
    assert len(stored().cases) == 2470


@needs_plans
def test_every_listed_plan_exists() -> None:
    known = {case.id for case in stored().cases}
    stale = [f"{gap.file}:{gap.line}: {gap.case}" for name, gap in load_gaps(LEDGER).items() if name not in known]
    assert not stale, "\n".join(["the ledger lists plans that do not exist", *stale])
