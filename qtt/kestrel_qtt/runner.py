"""Drive an engine over many cases and judge what comes of each."""

from __future__ import annotations

import copyreg
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from types import MappingProxyType

from msgspec.structs import replace

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
    carrier_of: Callable[[Case], str] = getattr(driver, "carrier_of", lambda _: "")
    groups = [cases[start : start + size] for start in range(0, len(cases), size)]
    for case, outcome, seconds in (
        _side_by_side(groups, driver, options)
        if options.jobs > 1 and len(groups) > 1
        else _in_turn(groups, driver, options)
    ):
        result = known_gaps.apply(gaps, judge(case, outcome, seconds, tolerant_errors=tolerant_errors))
        yield replace(result, carrier=carrier_of(case))


def _size(cases: int, options: RunOptions) -> int:
    """How many cases a group has: so few that all jobs have one, unless that makes groups which are not worth it."""
    return min(options.group_size, max(WORTH_A_JOB, -(-cases // options.jobs)))


_Outcomes = dict[str, tuple[Outcome, float]]
# A mapping that nobody may change cannot go from one process to another by itself.
copyreg.pickle(MappingProxyType, lambda mapping: (_unchanging, (dict(mapping),)))

_WORK: list[Callable[[int], _Outcomes]] = []
"""What a process that was forked for groups does with the number of each."""


def _unchanging(members: dict[str, object]) -> MappingProxyType[str, object]:
    return MappingProxyType(members)


def _work(number: int) -> _Outcomes:
    return _WORK[-1](number)


def _in_turn(
    groups: Sequence[Sequence[Case]], driver: Driver, options: RunOptions
) -> Iterator[tuple[Case, Outcome, float]]:
    for group in groups:
        yield from run_group(group, driver, options)


def _side_by_side(
    groups: Sequence[Sequence[Case]], driver: Driver, options: RunOptions
) -> Iterator[tuple[Case, Outcome, float]]:
    """Run several groups at once; their outcomes come in the order of the groups."""
    # Few cases do without them.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    def outcomes_of(number: int) -> _Outcomes:
        found = run_group(groups[number], driver, options)
        return {case.id: (outcome, seconds) for case, outcome, seconds in found}

    pool: Executor
    if getattr(driver, "can_fork", False):
        # Threads share one core where nothing but Python works.
        pool, work = ProcessPoolExecutor(options.jobs, get_context("fork"), _WORK.append, (outcomes_of,)), _work
    else:
        pool, work = ThreadPoolExecutor(options.jobs, "group"), outcomes_of
    running = [pool.submit(work, number) for number in range(len(groups))]
    try:
        for group, waiting in zip(groups, running, strict=True):
            outcomes = waiting.result()
            yield from ((case, *outcomes[case.id]) for case in group)
    except KeyboardInterrupt:
        # A group may run for a minute; whoever interrupts does not wait for it.
        pool.shutdown(wait=False, cancel_futures=True)
        for child in active_children():
            child.terminate()
        raise
    finally:
        for each in running:
            each.cancel()
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
