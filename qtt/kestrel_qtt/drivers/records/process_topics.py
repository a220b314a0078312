"""Topics in this process: queries run here, without Spark, and what they write stays in their case."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.job import Job, crashed
from kestrel_qtt.drivers.records.run import CaseJob, CaseTopics
from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import EngineError
from kestrel_sql.plan.copartitioning import check_partitions
from kestrel_sql.process.query import ProcessQuery


class ProcessTopics(CaseTopics):
    """Runs each query by itself."""

    carrier = "process"
    can_fork = True

    def run(self, jobs: Sequence[CaseJob], cut: Cut) -> None:
        """Feed each query its records, cut into batches as asked."""
        for job in jobs:
            run_job(job, cut, job.tasks())


def run_job(job: Job, cut: Cut, tasks: int) -> None:
    """Run one query over its records; with a restart its state is encoded and read back after half of the batches."""
    started = time.perf_counter()
    try:
        check_partitions(job.run.plan.physical_plan, job.partitions)
        graph = build_graph([job.run], job.functions)
        query, output = ProcessQuery(graph, tasks), Output()
        batches = list(cut.batches(job.feed))
        restart_after = cut.restart_after(len(batches))
        for at, batch in enumerate(batches):
            query.process(batch, output)
            if at == restart_after:
                restarted = ProcessQuery(build_graph([job.run], job.functions), tasks)
                restarted.restore(query.checkpoint())
                query = restarted
        job.output = output
    except EngineError as error:
        job.outcome = model.Rejected(message=str(error), error_code=error.code)
    except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
        job.outcome = crashed(error)
    job.seconds = time.perf_counter() - started
