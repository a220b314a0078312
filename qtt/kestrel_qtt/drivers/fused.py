"""Queries of many cases run as one.

Those of equal functions share a Spark query, the deepest first, and a group that dies is halved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.job import Job, crashed
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import EngineError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline

MOST_FUSED = 60
"""Queries of one pipeline; 100 of ksqlDB's filled a JVM of 850 MB while Spark read and analysed their SQL."""


AnyJob = TypeVar("AnyJob", bound=Job)

RunGroup = Callable[[Pipeline, Sequence[AnyJob]], list[Output]]
"""Runs the pipeline of several jobs over what they are fed, and gives what each wrote.

Several jobs have the same `number` if their query is shared.
"""


def run_jobs(jobs: Sequence[AnyJob], run_group: RunGroup[AnyJob]) -> None:
    """Run all jobs, in as few groups as possible of at most `MOST_FUSED`.

    The deepest come first. A level costs a second whatever passes it, so that a query shares those of deeper ones.
    """
    groups: dict[Registry, list[AnyJob]] = {}
    for job in jobs:
        if _is_planned(job):
            groups.setdefault(job.functions, []).append(job)
    for members in groups.values():
        by_query = list(_by_query(sorted(members, key=lambda job: -job.depth)).values())
        for start in range(0, len(by_query), MOST_FUSED):
            _run([job for jobs in by_query[start : start + MOST_FUSED] for job in jobs], run_group)


def _by_query(jobs: Iterable[AnyJob]) -> dict[Hashable, list[AnyJob]]:
    found: dict[Hashable, list[AnyJob]] = {}
    for job in jobs:
        found.setdefault(job.shared, []).append(job)
    return found


def _is_planned(job: Job) -> bool:
    """Find out how many stages a query has, and whether it can be built at all."""
    try:
        pipeline = build_pipeline([job.run], job.functions)
        pipeline.tasks(job.partitions)
    except EngineError as error:
        job.outcome = model.Rejected(message=str(error), error_code=error.code)
        return False
    except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
        job.outcome = crashed(error)
        return False
    job.depth, job.window = pipeline.depth, pipeline.graph.ends[0].window
    return True


def _run(jobs: Sequence[AnyJob], run_group: RunGroup[AnyJob]) -> None:
    """Run jobs as one, and halve the group as long as it dies, until the guilty one is alone."""
    started = time.perf_counter()
    by_query = _by_query(jobs).values()
    for number, sharing in enumerate(by_query):
        for job in sharing:
            job.number = number
    try:
        outputs = run_group(build_pipeline([sharing[0].run for sharing in by_query], jobs[0].functions), jobs)
    except Exception as error:  # noqa: BLE001 - whatever Spark throws concerns one query of the group
        if len(jobs) == 1:
            jobs[0].outcome = crashed(error)
            return
        half = len(jobs) // 2
        _run(jobs[:half], run_group)
        _run(jobs[half:], run_group)
        return
    share = (time.perf_counter() - started) / len(jobs)
    for job, output in zip(jobs, outputs, strict=True):
        job.output, job.seconds = output, share
