"""Runs one query of each REST-QTT case in a group, and keeps their tables for pull queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kestrel_qtt.drivers.fused import run_jobs
from kestrel_qtt.drivers.group_runner import GroupRunner
from kestrel_qtt.drivers.job import Job
from kestrel_qtt.drivers.memory import Memory
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.errors import QueryError
from kestrel_sql.operators.operator import State
from kestrel_sql.queries.pull_state import MaterialisedTable
from kestrel_sql.spark.build.queryable import queryable_table
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.state.checkpoint_reader import CheckpointReader
from kestrel_sql.topics.records import Record


@dataclass(frozen=True, slots=True)
class LevelStates:
    """The states of one level of a group at its end, of one task and one page."""

    level: tuple[State, ...]
    tasks: int = 1
    pages: int = 1

    def state(self, place: tuple[int, int, int]) -> State | None:
        """Return the states of the only page."""
        return next(iter(self.level), None)

    def states(self, level: int) -> Iterator[State]:
        """Return the states of all pages."""
        return iter(self.level)


@dataclass(frozen=True, slots=True)
class GroupExecution:
    """A persistent query that ran in a group; it cannot continue, because the group owns the checkpoint."""

    materialised: MaterialisedTable | None

    def table(self) -> MaterialisedTable | None:
        """Return the table as the state held it."""
        return self.materialised

    def advance(self, records: Sequence[Record]) -> Output:
        """Refuse further records."""
        raise QueryError("a query that ran in a group of cases cannot go on", hint="give all inputs before it runs")

    def upgrade(self, run: QueryRun) -> None:
        """Refuse another plan."""
        raise QueryError("a query that ran in a group of cases cannot be replaced")

    def close(self) -> None:
        """Do nothing: the states are in memory."""


@dataclass(slots=True, kw_only=True)
class TableJob(Job):
    """A query whose table, if it has one, is read at the end."""

    table: MaterialisedTable | None = None


def run_group(jobs: Sequence[TableJob], memory: Memory) -> None:
    """Run the queries fused, and read the tables of those that are queryable."""
    run_jobs(jobs, lambda pipeline, members: _run(memory.runner(), pipeline, members))


def _run(runner: GroupRunner, pipeline: Pipeline, jobs: Sequence[TableJob]) -> list[Output]:
    return runner.run_group(
        pipeline, [job.feed for job in jobs], look=lambda folder: _read_tables(runner, pipeline, jobs, folder)
    )


def _read_tables(runner: GroupRunner, pipeline: Pipeline, jobs: Sequence[TableJob], checkpoint: Path) -> None:
    if not any(job.run.queryable for job in jobs):
        return
    reader = CheckpointReader(runner.spark, str(checkpoint), levels=len(pipeline.group.levels), tasks=1, pages=1)
    levels: dict[int, LevelStates] = {}
    for number, job in enumerate(jobs):
        kept = queryable_table(pipeline.group, number, job.run.plan.physical_plan) if job.run.queryable else None
        if kept is not None:
            if kept.level not in levels:
                levels[kept.level] = LevelStates(tuple(reader.states(kept.level)))
            job.table = MaterialisedTable(kept, levels[kept.level])
    reader.close()
