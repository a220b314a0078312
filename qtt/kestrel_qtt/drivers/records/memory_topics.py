"""Topics in memory: queries read memory streams, and what they write stays in their case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.fused import run_jobs
from kestrel_qtt.drivers.memory import Memory
from kestrel_qtt.drivers.records.run import CaseJob, CaseRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.spark.pipeline.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class MemoryTopics:
    """Needs nothing but a runner over memory streams."""

    memory: Memory
    can_share: bool = True
    carrier: str = "spark"
    can_fork: bool = False

    def begin(self, runs: Sequence[CaseRun]) -> None:
        """Do nothing: cases hold their inputs."""

    def run(self, jobs: Sequence[CaseJob], cut: Cut) -> None:
        """Run the queries, as few Spark queries as possible."""
        run_jobs(jobs, lambda pipeline, members: self._run(pipeline, members, cut))

    def _run(self, pipeline: Pipeline, jobs: Sequence[CaseJob], cut: Cut) -> list[Output]:
        """Feed each query its records, cut into micro-batches as asked."""
        tasks = {job.number: job.tasks() for job in jobs}
        written: list[Output] = self.memory.runner().run_group(
            pipeline,
            [job.feed for job in jobs],
            cut,
            queries=[job.number for job in jobs],
            tasks=[tasks[number] for number in sorted(tasks)],
        )
        return written

    def collect(self, job: CaseJob, output: Output) -> None:
        """Hand what a query wrote to its case."""
        job.case_run.collect(output)

    def end(self, runs: Sequence[CaseRun]) -> None:
        """Do nothing: nothing was made."""

    def close(self) -> None:
        """Close the runner."""
        self.memory.close()
