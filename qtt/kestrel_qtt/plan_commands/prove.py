"""Prove stored plans by three oracles: their own spec, the same statements planned and run today, and today's codec.

A plan that equals its round trip through the codec, or today's plan of its statements, is not run again: it compiles to
the same pipeline, which its own spec has judged already.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, Status
from kestrel_qtt.drivers.driver import PlanningDriver, PlanningError, RunOptions
from kestrel_qtt.plan_commands.text import differences_between, survives_codec
from kestrel_qtt.plans.store import PlanStoreError, StoredPlan, load_stored
from kestrel_qtt.runner import run_cases


class Comparison(msgspec.Struct, frozen=True):
    """The comparison of a stored plan with today's: its `problem`, or whether today's plan differs.

    `excuse` is the reason, from its spec, why its statements mean something else today.
    """

    case: Case
    problem: str = ""
    differs: bool = False
    excuse: str = ""


def compare(stored: StoredPlan, case: Case, driver: PlanningDriver, excuse: str = "") -> Comparison:
    """Compare a stored plan with today's codec and planner, without running it; `excuse` replaces that of its spec."""
    try:
        text, spec = load_stored(stored)
        excuse = excuse or str(spec.get("today", ""))
        if not survives_codec(text, str(stored.folder)):
            return Comparison(case, f"{stored.folder}: another plan after a round trip through the codec")
        different = differences_between(text, driver.plan_documents(case), str(stored.folder))
    except PlanStoreError as error:
        return Comparison(case, str(error))
    except PlanningError as error:
        return Comparison(
            case, "" if excuse else f"{stored.folder}: its statements cannot be planned today\n  {error}", True, excuse
        )
    if excuse and not different:
        return Comparison(
            case, f"{stored.folder}: its statements give the same plan today, though its spec says: {excuse}"
        )
    return Comparison(case, differs=bool(different), excuse=excuse)


def run_today(comparisons: Sequence[Comparison], driver: PlanningDriver) -> list[str]:
    """Run, fused, the statements of plans that differ from today's; return a message for each that fails its spec."""
    cases = [
        replace(each.case, id=f"{each.case.id}#today", plan=None, serdes=None)
        for each in comparisons
        if each.differs and not each.excuse and not each.problem
    ]
    results = run_cases(cases, driver, RunOptions())
    return [
        f"{result.case.id}: {result.status.value}\n  {result.reason}"
        for result in results
        if result.status is not Status.PASSED
    ]
