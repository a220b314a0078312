"""The cut into micro-batches, and a restart in the middle, change no record and no log entry.

Some cases are compared with their uncut run, log included; every seventh case, if it keeps state, with its expected
records. `make cuts`, a part of `make nightly`, runs all cases with more seeds, and ksqlDB's cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.cases.known_gaps import apply
from kestrel_qtt.cases.model import Case, Outcome, Produced, Status
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.drivers.records.prepare import prepared
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.load import Loaded, load, load_all
from kestrel_qtt.runner import run_group
from kestrel_sql.spark.pipeline.pipeline import build_pipeline

ROOT = Path(__file__).resolve().parents[1] / "test-cases"
EVERY = 7
CASES = {
    "tables/filter-select.json": [
        "a-row-that-stops-to-match-leaves-a-tombstone-one-that-never-matched-leaves-nothing[JSON]"
    ],
    "aggregates/functions.yaml": [
        "lists-keep-nulls-and-repetitions-sets-keep-first-sights[AVRO]",
        "the-first-and-last-two-by-offset",
    ],
    "aggregates/group-by.json": ["rows-whose-group-is-null-or-cannot-be-computed-are-left-out"],
    "aggregates/having-and-tables.yaml": [
        "a-row-of-a-table-that-moves-leaves-its-old-group-before-it-joins-the-new-one[PROTOBUF]"
    ],
    "windows/time.yaml": [
        "a-filter-holds-the-stream-time-of-the-window-back",
        "hopping-windows-give-one-output-each-earliest-first[JSON]",
    ],
    "windows/sessions-and-final.json": [
        "every-aggregate-merges[JSON]",
        "EMIT-FINAL-gives-each-tumbling-window-once-when-it-is-closed[JSON]",
        "a-jump-in-time-loses-what-has-expired-before-it-could-be-given-out",
        "EMIT-FINAL-of-sessions-gives-no-tombstones-and-each-session-once-its-gap-is-over[AVRO]",
    ],
    "joins/stream-stream.yaml": [
        "padded-rows-come-before-the-results-of-the-row-that-made-them-due-right-side-first-among-equals",
        "a-buffered-row-expires-with-the-newest-row-of-its-own-side-only",
    ],
    "joins/tables.json": ["a-foreign-key-follows-the-row-it-names[JSON]"],
    "joins/n-way.yaml": ["two-streams-and-then-a-table-whose-row-of-the-moment-of-the-match-counts"],
}


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    opened = open_driver()
    yield opened
    opened.close()


def chosen() -> list[Case]:
    cases = []
    for file, names in CASES.items():
        found = {case.id.rpartition("::")[2].lower(): case for case in load(ROOT / file).cases}
        cases += [found[name.lower()] for name in names]
    return cases


def outcomes(driver: Driver, cases: Sequence[Case], options: RunOptions) -> dict[str, Outcome]:
    # One group: a micro-batch costs nearly the same however many cases it holds.
    given = replace(options, group_size=len(cases))
    return {case.id: outcome for case, outcome, _ in run_group(cases, driver, given)}


@pytest.fixture(scope="module")
def uncut(driver: Driver) -> dict[str, Outcome]:
    found = outcomes(driver, chosen(), RunOptions("one"))
    assert all(isinstance(outcome, Produced) for outcome in found.values()), found
    return found


def keeps_state(case: Case) -> bool:
    """Whether a query of the case has operators with state; a refused statement has none."""
    run = prepared(case)
    return any(
        build_pipeline([run.query_run(query)], run.session.functions).depth > 1
        for query in (run.pending if run.outcome is None else ())
    )


def in_one_format(cases: Iterable[Case]) -> Iterator[Case]:
    """The first of the cases that differ only in their format or their properties."""
    names = set()
    for case in cases:
        folder, _, name = case.id.rpartition("::")
        if (key := (folder, name.partition("[")[0])) not in names:
            names.add(key)
            yield case


@pytest.fixture(scope="module")
def stateful() -> Loaded:
    """Every seventh case, if it keeps state, and all known gaps."""
    loaded = load_all(find_files([ROOT]))
    accepted = [case for case in loaded.cases if case.expected_exception is None]
    return replace(loaded, cases=tuple(case for case in list(in_one_format(accepted))[::EVERY] if keeps_state(case)))


@pytest.fixture(scope="module")
def restarted(driver: Driver, stateful: Loaded) -> dict[str, Outcome]:
    """What all cases give under a cut, with a restart."""
    cases = {case.id: case for case in (*chosen(), *stateful.cases)}
    return outcomes(driver, list(cases.values()), RunOptions("random:7", restart=True))


@pytest.mark.rules("O0.3")
@pytest.mark.spark
def test_cuts_and_restarts_change_nothing(uncut: dict[str, Outcome], restarted: dict[str, Outcome]) -> None:
    assert {name: restarted[name] for name in uncut} == uncut


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("cut", ["each", "random:7"])
def test_cuts_change_nothing(driver: Driver, uncut: dict[str, Outcome], cut: str) -> None:
    assert outcomes(driver, chosen(), RunOptions(cut)) == uncut


@pytest.mark.spark
def test_cases_that_keep_state_under_a_cut(stateful: Loaded, restarted: dict[str, Outcome]) -> None:
    assert len(stateful.cases) > 30
    results = [apply(stateful.gaps, judge(case, restarted[case.id], 0)) for case in stateful.cases]
    assert [f"{r.case.id}: {r.reason}" for r in results if r.status in (Status.FAILED, Status.ERROR)] == []
