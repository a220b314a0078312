"""Drive an engine over many cases and judge what comes of each."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from kestrel_qtt.cases import known_gaps
from kestrel_qtt.cases.known_gaps import NO_GAPS, Ledger
from kestrel_qtt.cases.model import Case, CaseFileError, Crashed, Outcome, Result, Status
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.judge.judge import judge

WORTH_A_JOB = 60
"""Fewer cases are done sooner in one group than in two groups side by side."""


def run_cases(
    cases: Sequence[Case],
    driver: Driver,
    options: RunOptions,
    *,
    tolerant_errors: bool = False,
    gaps: Ledger = NO_GAPS,
) -> Iterator[Result]:
    """Run `cases` in groups and yield one result for each as it is known.

    A driver that breaks costs its group, not the run.
    """
    size = _size(len(cases), options)
    groups = [cases[start : start + size] for start in range(0, len(cases), size)]
    for case, outcome, seconds in (
        _side_by_side(groups, driver, options) if options.jobs > 1 else _in_turn(groups, driver, options)
    ):
        yield known_gaps.apply(gaps, judge(case, outcome, seconds, tolerant_errors=tolerant_errors))


def _size(cases: int, options: RunOptions) -> int:
    """How many cases a group has: so few that all jobs have one, unless that makes groups which are not worth it."""
    return min(options.group_size, max(WORTH_A_JOB, -(-cases // options.jobs)))


def _in_turn(
    groups: Sequence[Sequence[Case]], driver: Driver, options: RunOptions
) -> Iterator[tuple[Case, Outcome, float]]:
    for group in groups:
        yield from run_group(group, driver, options)


def _side_by_side(
    groups: Sequence[Sequence[Case]], driver: Driver, options: RunOptions
) -> Iterator[tuple[Case, Outcome, float]]:
    """Run several groups at once; their outcomes come in the order of the groups."""

    def outcomes_of(group: Sequence[Case]) -> list[tuple[Case, Outcome, float]]:
        return list(run_group(group, driver, options))

    pool = ThreadPoolExecutor(options.jobs, "group")
    running = [pool.submit(outcomes_of, group) for group in groups]
    try:
        for outcomes in running:
            yield from outcomes.result()
    except KeyboardInterrupt:
        # A group may run for a minute; whoever interrupts does not wait for it.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    finally:
        for waiting in running:
            waiting.cancel()
    pool.shutdown()


def run_group(group: Sequence[Case], driver: Driver, options: RunOptions) -> Iterator[tuple[Case, Outcome, float]]:
    """Run one group; every case is yielded exactly once, whatever the driver does."""
    waiting = {case.id: case for case in group}
    started = time.perf_counter()
    problem = "the driver gave no outcome for the case"
    try:
        for case, outcome, seconds in driver.run(group, options):
            if waiting.pop(case.id, None) is not None:
                yield case, outcome, seconds
    except Exception:  # noqa: BLE001 - whatever breaks in an engine must not take other groups along
        problem = f"the driver broke:\n{traceback.format_exc()}"
    seconds = (time.perf_counter() - started) / max(1, len(group))
    for case in waiting.values():
        yield case, Crashed(problem), seconds


def file_error_result(error: CaseFileError) -> Result:
    """The result that stands for a file or case that could not be read."""
    name = f"{error.file.stem} - line {error.line}"
    case = Case(
        id=f"{error.file.as_posix()}::line-{error.line}", file=error.file, line=error.line, name=name, statements=()
    )
    return Result(case, Status.ERROR, 0.0, f"{error.file}:{error.line}: {error.message}")
