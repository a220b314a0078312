"""Run a group of queries whose tables are asked afterwards: the states of the tables are read before the checkpoint goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kestrel_qtt.drivers.fused import Job
from kestrel_sql.operators.operator import State
from kestrel_sql.spark.build.queryable import Kept, kept_table
from kestrel_sql.spark.in_memory.runner import MemoryRunner, Output
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.state.checkpoint_reader import CheckpointReader


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


@dataclass(slots=True, kw_only=True)
class RestJob(Job):
    """A query of a case; `table` is set once it ran, if its run is queryable."""

    table: Table | None = None


def run_group(memory: MemoryRunner, pipeline: Pipeline, jobs: Sequence[RestJob]) -> list[Output]:
    """Run the pipeline of several jobs, and read the states of the tables that pull queries ask."""
    return memory.run(
        pipeline, [job.feed for job in jobs], look=lambda path: _read_tables(memory, pipeline, jobs, path)
    )


def _read_tables(memory: MemoryRunner, pipeline: Pipeline, jobs: Sequence[RestJob], checkpoint: str) -> None:
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
