"""Three oracles for each stored plan of ours: its own spec, the same statements planned and run today, and today's codec.

What need not be run is not: a plan that is equal after a round trip through the codec, or equal to the one that its statements give
today, compiles to the same pipeline, and has been judged by its own spec already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kestrel_qtt.cases.model import Case, Status
from kestrel_qtt.drivers.driver import PlanningDriver, PlanningError, RunOptions
from kestrel_qtt.plan_commands.text import differences_between, survives_codec
from kestrel_qtt.plans.store import PlanStoreError, StoredPlan, load_stored
from kestrel_qtt.runner import run_cases


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a stored plan stands to today: its `problem`, or whether the plan of today differs from it.

    `excuse` is what its spec says of a plan whose statements mean something else today.
    """

    case: Case
    problem: str = ""
    differs: bool = False
    excuse: str = ""


def compare(stored: StoredPlan, case: Case, driver: PlanningDriver) -> Comparison:
    """Compare a stored plan with what today's codec and planner make of it; nothing is run."""
    excuse = ""
    try:
        text, spec = load_stored(stored)
        excuse = str(spec.get("today", ""))
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
    """Run the statements of the plans that differ from today's, fused, and say which do not give what the specs expect."""
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
