"""Topics in memory: queries read memory streams, and what they write stays in their case."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.fused import run_jobs
from kestrel_qtt.drivers.group_runner import GroupRunner
from kestrel_qtt.drivers.records.run import CaseJob, CaseTopics
from kestrel_qtt.drivers.warm.session import open_case_session
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.spark.pipeline.pipeline import Pipeline


class MemoryTopics(CaseTopics):
    """Needs nothing but a runner over memory streams, which starts Spark with the first queries."""

    can_share = True

    def __init__(self) -> None:
        self._runner: GroupRunner | None = None
        self._opening = Lock()

    def run(self, jobs: Sequence[CaseJob], cut: Cut) -> None:
        """Run the queries, as few Spark queries as possible."""
        run_jobs(jobs, lambda pipeline, members: self._run(pipeline, members, cut))

    def _run(self, pipeline: Pipeline, jobs: Sequence[CaseJob], cut: Cut) -> list[Output]:
        """Feed each query its records, cut into micro-batches as asked."""
        with self._opening:
            runner = self._runner = self._runner or GroupRunner(open_case_session())
        tasks = {job.number: job.tasks() for job in jobs}
        return runner.run_group(
            pipeline,
            [job.feed for job in jobs],
            cut,
            queries=[job.number for job in jobs],
            tasks=[tasks[number] for number in sorted(tasks)],
        )

    def close(self) -> None:
        """Close the runner."""
        if self._runner is not None:
            self._runner.close()
