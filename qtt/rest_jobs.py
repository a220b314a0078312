"""Queries of many cases, run fused: those of equal depth share one Spark query, and a group that dies is halved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.errors import EngineError, QueryError
from engine.functions.registry import Registry
from engine.plan.step import WindowInfo
from engine.spark.memory import MemoryRunner, Output
from engine.spark.pipeline import QueryRun, build_pipeline
from engine.topics.records import Record


@dataclass(slots=True)
class Job:
    """One query to run over its records; afterwards either `output` or `error` is set."""

    run: QueryRun
    functions: Registry
    feed: Sequence[Record]
    output: Output | None = None
    window: WindowInfo | None = None
    error: EngineError | None = None

    def plan(self) -> int | None:
        """Find out how many stages the query has, None if it cannot be built."""
        try:
            pipeline = build_pipeline([self.run], self.functions)
        except EngineError as error:
            self.error = error
            return None
        self.window = pipeline.group.ends[0].window
        return len(pipeline.texts)


def run_jobs(memory: Callable[[], MemoryRunner], jobs: Sequence[Job]) -> None:
    """Run all jobs."""
    by_depth: dict[int, list[Job]] = {}
    for job in jobs:
        depth = job.plan()
        if depth is not None:
            by_depth.setdefault(depth, []).append(job)
    for members in by_depth.values():
        _fused(memory(), members)


def _fused(memory: MemoryRunner, jobs: Sequence[Job]) -> None:
    try:
        pipeline = build_pipeline([job.run for job in jobs], jobs[0].functions)
        outputs = memory.run(pipeline, [job.feed for job in jobs])
    except Exception as error:  # noqa: BLE001 - whatever Spark throws concerns one query of the group
        if len(jobs) == 1:
            jobs[0].error = QueryError(str(error).split("\n\nJVM stacktrace")[0][:2000])
            return
        half = len(jobs) // 2
        _fused(memory, jobs[:half])
        _fused(memory, jobs[half:])
        return
    for job, output in zip(jobs, outputs, strict=True):
        job.output = output
        fatal = next((entry for entry in output.log if entry.kind == 4), None)
        if fatal is not None:
            job.error = QueryError(f"{fatal.message} ({fatal.logger}, {fatal.topic}-{fatal.partition} at offset {fatal.offset})")
