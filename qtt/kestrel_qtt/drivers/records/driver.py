"""The driver of cases of records: the next query of every case, all queries of a round fused, until none is left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.driver import PlanningError, RunOptions
from kestrel_qtt.drivers.records.outcome import outcome_of
from kestrel_qtt.drivers.records.prepare import plan_text, prepare, prepared
from kestrel_qtt.drivers.records.reuse import QueryResults
from kestrel_qtt.drivers.records.run import CaseJob, CaseRun
from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.explain import stages_text
from kestrel_sql.dataflow.rows import Output


class CaseTopics(Protocol):
    """Where the topics of cases are while these run: in memory, or on a broker."""

    @property
    def carrier(self) -> str:
        """What runs the queries, `spark` or `process`."""

    @property
    def can_share(self) -> bool:
        """Whether a query can read the records of several cases at once."""

    @property
    def can_fork(self) -> bool:
        """Whether a copy of this process can run cases, too: neither Spark nor a broker is open."""

    def begin(self, runs: Sequence[CaseRun]) -> None:
        """Create what the planned cases of a group need, and produce their inputs."""

    def run(self, jobs: Sequence[CaseJob], cut: Cut) -> None:
        """Run queries, and give each job what its query wrote, or why there is nothing."""

    def collect(self, job: CaseJob, output: Output) -> None:
        """Hand what a query wrote to its case."""

    def end(self, runs: Sequence[CaseRun]) -> None:
        """Remove what a group needed."""

    def close(self) -> None:
        """Remove what is kept on disk, and close clients."""


class RecordDriver:
    """Runs cases of records over topics in memory or on a broker."""

    def __init__(self, topics: CaseTopics) -> None:
        self._topics = topics
        self._results = QueryResults()

    def close(self) -> None:
        """Close the topics; a Spark itself ends with the process."""
        self._topics.close()

    def run(
        self, cases: Sequence[model.Case], options: RunOptions
    ) -> Iterator[tuple[model.Case, model.Outcome, float]]:
        """Run the cases; each is yielded once with its outcome and its share of the seconds."""
        cut = Cut.parse(options.cut, options.restart)
        for start in range(0, len(cases), options.group_size):
            yield from self._run_group(cases[start : start + options.group_size], cut, reuse=options.reuse)

    def carrier_of(self, case: model.Case) -> str:
        """What runs the queries of a case, `spark` or `process`."""
        return self._topics.carrier

    @property
    def can_fork(self) -> bool:
        """Whether a copy of this process can run cases, too."""
        return self._topics.can_fork

    @property
    def equal_queries(self) -> int:
        """How many queries were not run, because an equal one had been run over equal records."""
        return self._results.equal

    def explain(self, case: model.Case) -> str:
        """The plan of a case as JSON, and the stages in which each of its queries runs.

        Raises:
            PlanningError: a statement is refused.
        """
        run = prepare(case)
        if isinstance(run.outcome, model.Rejected):
            raise PlanningError(f"{run.outcome.message}\n{run.outcome.place}".rstrip())
        if isinstance(run.outcome, model.Failed | model.Crashed):
            raise PlanningError(run.outcome.message)
        graphs = (build_graph([run.query_run(query)], run.session.functions) for query in run.pending)
        return "\n\n".join([plan_text(case), *map(stages_text, graphs)])

    def plan_documents(self, case: model.Case) -> str:
        """The plan of a case as it is stored."""
        return plan_text(case)

    def _run_group(
        self, cases: Sequence[model.Case], cut: Cut, *, reuse: bool
    ) -> Iterator[tuple[model.Case, model.Outcome, float]]:
        started = time.perf_counter()
        runs = [prepared(case) for case in cases]
        try:
            self._topics.begin(runs)
            share = (time.perf_counter() - started) / max(len(runs), 1)
            while active := [run for run in runs if run.is_active]:
                self._round(active, cut, reuse=reuse)
            for run in runs:
                yield run.case, outcome_of(run), run.seconds + share
        finally:
            self._topics.end(runs)

    def _round(self, runs: Sequence[CaseRun], cut: Cut, *, reuse: bool) -> None:
        """Run the next query of every case."""
        may_share = self._topics.can_share and cut == Cut()
        jobs = [run.job(run.pending.pop(0), may_share=may_share) for run in runs]

        def run_all(jobs: Sequence[CaseJob]) -> None:
            self._topics.run(jobs, cut)

        if reuse:
            self._results.run(jobs, run_all)
        else:
            run_all(jobs)
        for job in jobs:
            job.case_run.seconds += job.seconds
            if job.output is None:
                job.case_run.outcome = job.outcome
            else:
                self._topics.collect(job, job.output)
