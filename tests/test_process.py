"""Every case of records runs in this process as on Spark: whole, cut and restarted, with the same records and log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.cases.known_gaps import apply
from kestrel_qtt.cases.model import Case, Outcome, Result, Status
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.load import Loaded, load_all
from kestrel_qtt.runner import run_group

ROOT = Path(__file__).resolve().parents[1]
KSQLDB = ROOT.parent / "shared" / "ksqldb" / "query-validation-tests"
CHANGING = frozenset({"UNIX_TIMESTAMP", "RANDOM", "UUID"})
"""Functions that give another value at each call."""


def loaded_from(root: Path) -> Loaded:
    found = load_all(find_files([root]))
    return replace(found, cases=tuple(c for c in found.cases if c.has_records))


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return loaded_from(ROOT / "test-cases")


@pytest.fixture(scope="module")
def process() -> Iterator[Driver]:
    driver = open_driver("process")
    yield driver
    driver.close()


def outcomes(driver: Driver, cases: Sequence[Case], options: RunOptions) -> dict[str, Outcome]:
    return {case.id: outcome for case, outcome, _ in run_group(cases, driver, options)}


def failed(loaded: Loaded, found: dict[str, Outcome], *, tolerant_errors: bool = False) -> list[str]:
    """The cases whose outcomes are not the expected ones, without the known gaps."""
    judged: list[Result] = [
        apply(loaded.gaps, judge(case, found[case.id], 0, tolerant_errors=tolerant_errors)) for case in loaded.cases
    ]
    return [f"{each.case.id}: {each.reason}" for each in judged if each.status in (Status.FAILED, Status.ERROR)]


@pytest.mark.rules("O0.3")
def test_all_cases_pass_cut_and_restarted(process: Driver, loaded: Loaded) -> None:
    assert failed(loaded, outcomes(process, loaded.cases, RunOptions("random:3", restart=True))) == []


@pytest.mark.nightly
@pytest.mark.parametrize("options", [RunOptions("each"), RunOptions("random:4", restart=True)], ids=["each", "random"])
def test_neither_cuts_nor_restarts_change_an_outcome(process: Driver, loaded: Loaded, options: RunOptions) -> None:
    whole, cut = (outcomes(process, loaded.cases, each) for each in (RunOptions("one"), options))
    changed = [name for name, outcome in whole.items() if cut[name] != outcome]
    assert [name for name in changed if not _is_random(loaded, name)] == []


def _is_random(loaded: Loaded, name: str) -> bool:
    case = next(case for case in loaded.cases if case.id == name)
    return any(function in statement for statement in case.statements for function in CHANGING)


@pytest.mark.conformance
@pytest.mark.skipif(not KSQLDB.is_dir(), reason="ksqlDB's cases are not here")
def test_the_cases_of_ksqldb_pass(process: Driver) -> None:
    loaded = loaded_from(KSQLDB)
    found = outcomes(process, loaded.cases, RunOptions("one"))
    assert failed(loaded, found, tolerant_errors=True) == []


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.parametrize("root", [ROOT / "test-cases", KSQLDB], ids=["ours", "ksqldb"])
def test_spark_gives_the_same_outcomes(process: Driver, root: Path) -> None:
    if not root.is_dir():
        pytest.skip("ksqlDB's cases are not here")
    loaded, spark = loaded_from(root), open_driver()
    try:
        theirs = outcomes(spark, loaded.cases, RunOptions("one", group_size=420))
    finally:
        spark.close()
    ours = outcomes(process, loaded.cases, RunOptions("one"))
    changed = [name for name, outcome in theirs.items() if ours[name] != outcome]
    assert [name for name in changed if not _is_random(loaded, name)] == []
