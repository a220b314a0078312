"""Queries of many cases run as one.

Those of equal functions share a Spark query, the deepest first, and a group that dies is halved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kestrel_qtt.cases import model
from kestrel_sql.dataflow.log_entries import FATAL
from kestrel_sql.errors import EngineError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.step import WindowInfo
from kestrel_sql.spark.in_memory.runner import Output
from kestrel_sql.spark.pipeline.pipeline import Pipeline, QueryRun, build_pipeline
from kestrel_sql.topics.records import Record

MOST_FUSED = 60
"""Queries of one pipeline; 100 of ksqlDB's filled a JVM of 850 MB while Spark read and analysed their SQL."""


@dataclass(slots=True, kw_only=True)
class Job:
    """A query to run over records in feed order.

    Afterwards it has an `output`, or an `outcome` that says why there is none.

    `partitions` are those of the topics that it reads, as far as they matter to it; `window` is that of the key that it
    writes. `number` is that of the query in the pipeline of its group.
    """

    run: QueryRun
    functions: Registry
    feed: Sequence[Record]
    partitions: Mapping[str, int] = field(default_factory=dict)
    depth: int = 0
    window: WindowInfo | None = None
    output: Output | None = None
    outcome: model.Rejected | model.Crashed | None = None
    seconds: float = 0.0
    number: int = 0

    @property
    def shared(self) -> Hashable:
        """Equal for jobs that can be one query of a pipeline, which reads the records of all of them."""
        return id(self)

    def plan(self) -> bool:
        """Find out how many stages the query has, and whether it can be built at all."""
        try:
            pipeline = build_pipeline([self.run], self.functions)
            pipeline.tasks(self.partitions)
        except EngineError as error:
            self.outcome = model.Rejected(message=str(error), error_code=error.code)
            return False
        except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
            self.outcome = crashed(error)
            return False
        self.depth, self.window = pipeline.depth, pipeline.group.ends[0].window
        return True


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
        if job.plan():
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


def failure(output: Output) -> model.Failed | None:
    """Say why a query died, None if it did not."""
    fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
    if fatal is None:
        return None
    return model.Failed(f"{fatal.text} ({fatal.logger}, {fatal.topic}-{fatal.partition} at offset {fatal.offset})")


def crashed(error: BaseException) -> model.Crashed:
    """What an exception means that is none of the engine's refusals: a bug, or a failure of Spark."""
    text = str(error).partition("\n\nJVM stacktrace")[0][:2000]
    return model.Crashed(f"{type(error).__name__}: {text}")


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
