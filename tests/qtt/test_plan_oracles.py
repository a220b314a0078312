"""Each of our stored plans equals today's plan and its round trip through the codec, or gives the same records.

Its own spec is the third oracle; pytest runs that one for each plan of `historic-plans`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cases.discovery import case_file
from kestrel_qtt.cases.model import Case
from kestrel_qtt.drivers.driver import PlanningDriver
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.load import load_stored
from kestrel_qtt.plan_commands.prove import Comparison, compare, run_today
from kestrel_qtt.plans.spec import case_document
from kestrel_qtt.plans.store import find_plans, record

STORE = Path(__file__).resolve().parents[2] / "historic-plans"


@pytest.fixture(scope="module")
def driver() -> Iterator[PlanningDriver]:
    opened = open_driver()
    yield opened
    opened.close()


@cache
def comparisons(driver: PlanningDriver) -> tuple[Comparison, ...]:
    return tuple(compare(stored, load_stored(case_file(stored.spec_file)), driver) for stored in find_plans(STORE))


def test_every_plan_survives_the_codec_and_differs_from_todays_with_a_reason_only(driver: PlanningDriver) -> None:
    assert [found.problem for found in comparisons(driver) if found.problem] == []


def test_few_plans_differ_from_todays(driver: PlanningDriver) -> None:
    found = comparisons(driver)
    assert sum(each.differs for each in found) < len(found) // 4


@pytest.mark.spark
def test_statements_whose_plans_changed_give_what_they_gave(driver: PlanningDriver) -> None:
    assert run_today(comparisons(driver), driver) == []


STATEMENTS = [
    "CREATE STREAM A (K INT KEY, V INT) WITH (kafka_topic='a', value_format='JSON');",
    "CREATE STREAM B AS SELECT K, V FROM A;",
]


def kept(folder: Path, driver: PlanningDriver, change: tuple[str, str] = ("", ""), **spec: Any) -> Comparison:
    """How a plan of `STATEMENTS`, changed in its text, stands to today; `spec` are further members of its spec."""
    case = Case(id="x", file=folder, line=1, name="x", statements=tuple(STATEMENTS), outputs=())
    plan = driver.plan_documents(case).replace(*change)
    stored = record(folder, "x", "1.0.0", plan, case_document(case))
    assert stored is not None
    document = json.loads(stored.spec_file.read_text(encoding="utf-8"))
    del document["specHash"]
    stored.spec_file.write_text(json.dumps({**document, **spec}), encoding="utf-8")
    return compare(stored, load_stored(case_file(stored.spec_file)), driver)


OTHER = ("V AS V", "(V + 0) AS V")


def test_an_equal_plan_is_not_run_again(tmp_path: Path, driver: PlanningDriver) -> None:
    found = kept(tmp_path, driver)
    assert (found.problem, found.differs) == ("", False)


def test_another_plan_is_run_or_excused(tmp_path: Path, driver: PlanningDriver) -> None:
    assert kept(tmp_path / "a", driver, OTHER).differs
    assert kept(tmp_path / "b", driver, OTHER, today="it was so").excuse == "it was so"


def test_an_excuse_that_is_not_needed_is_a_problem(tmp_path: Path, driver: PlanningDriver) -> None:
    assert "give the same plan today" in kept(tmp_path, driver, today="it was so").problem


def test_a_plan_that_cannot_be_read_is_a_problem(tmp_path: Path, driver: PlanningDriver) -> None:
    assert "PLAN_NEWER" in kept(tmp_path, driver, ("streamSinkV1", "streamSinkV9")).problem
