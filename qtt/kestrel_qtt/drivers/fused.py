"""Queries of many cases, run fused: those of equal depth and equal functions share one Spark query, and a group that dies is halved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.operators.operator import State
from kestrel_sql.plan.step import WindowInfo
from kestrel_sql.spark.build.queryable import Kept, kept_table
from kestrel_sql.spark.in_memory.runner import MemoryRunner, Output
from kestrel_sql.spark.pipeline.pipeline import Pipeline, QueryRun, build_pipeline
from kestrel_sql.spark.stages.log_entries import FATAL
from kestrel_sql.spark.state.checkpoint_reader import CheckpointReader
from kestrel_sql.topics.records import Record


@dataclass(frozen=True, slots=True)
class Table:
    """The table that a query keeps, and the states of its level as they were at the end."""

    kept: Kept
    level: tuple[State, ...]
    tasks: int = 1
    pages: int = 1

    def state(self, place: tuple[int, int, int]) -> State | None:
        """The states of a page; there is one."""
        return next(iter(self.level), None)

    def states(self, level: int) -> Iterator[State]:
        """The states of all pages."""
        return iter(self.level)


@dataclass(slots=True)
class Job:
    """One query to run over its records; afterwards either `output` or `error` is set, and `table` if its run is queryable."""

    run: QueryRun
    functions: Registry
    feed: Sequence[Record]
    output: Output | None = None
    window: WindowInfo | None = None
    error: EngineError | None = None
    table: Table | None = None

    def plan(self) -> int | None:
        """Find out how many stages the query has, None if it cannot be built."""
        try:
            pipeline = build_pipeline([self.run], self.functions)
        except EngineError as error:
            self.error = error
            return None
        self.window = pipeline.group.ends[0].window
        return pipeline.depth


def run_jobs(memory: Callable[[], MemoryRunner], jobs: Sequence[Job]) -> None:
    """Run all jobs."""
    fused: dict[tuple[int, int], list[Job]] = {}
    for job in jobs:
        depth = job.plan()
        if depth is not None:
            fused.setdefault((depth, id(job.functions)), []).append(job)
    for members in fused.values():
        _fused(memory(), members)


def _fused(memory: MemoryRunner, jobs: Sequence[Job]) -> None:
    try:
        pipeline = build_pipeline([job.run for job in jobs], jobs[0].functions)
        outputs = memory.run(
            pipeline, [job.feed for job in jobs], look=lambda path: _read_tables(memory, pipeline, jobs, path)
        )
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
        fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
        if fatal is not None:
            job.error = QueryError(
                f"{fatal.text} ({fatal.logger}, {fatal.topic}-{fatal.partition} at offset {fatal.offset})"
            )


def _read_tables(memory: MemoryRunner, pipeline: Pipeline, jobs: Sequence[Job], checkpoint: str) -> None:
    """Read the states of the tables that pull queries ask, while the checkpoint is there."""
    if not any(job.run.queryable for job in jobs):
        return
    reader = CheckpointReader(memory.spark, checkpoint, levels=len(pipeline.group.levels), tasks=1, pages=1)
    levels: dict[int, tuple[State, ...]] = {}
    for number, job in enumerate(jobs):
        kept = kept_table(pipeline.group, number, job.run.plan.physical_plan) if job.run.queryable else None
        if kept is not None:
            if kept.level not in levels:
                levels[kept.level] = tuple(reader.states(kept.level))
            job.table = Table(kept, levels[kept.level])
    reader.close()
