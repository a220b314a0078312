"""The driver of cases of records: the next query of every case, all queries of a round fused, until none is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence

import msgspec

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.driver import PlanningError, RunOptions
from kestrel_qtt.drivers.records.outcome import outcome_of
from kestrel_qtt.drivers.records.prepare import plan_text, prepare, prepared
from kestrel_qtt.drivers.records.run import CaseJob, CaseRun, CaseTopics
from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.explain import stages_text
from kestrel_sql.dataflow.rows import Output


class QueryResults(msgspec.Struct):
    """The outputs of queries, or why there is none, by what determines them: plan, settings, schemas and records.

    Variants of one case have most queries in common, so `qtt shrink` and `qtt mutate` run them over one `QueryResults`.
    So does pytest: most stored plans are what the planner makes of their case today. `equal` counts the queries that
    took the result of another. Not for several threads.
    """

    equal: int = 0

    _known: dict[Hashable, tuple[Output | None, model.Rejected | model.Crashed | None]] = msgspec.field(
        default_factory=dict
    )

    def run(self, jobs: Sequence[CaseJob], run: Callable[[Sequence[CaseJob]], None]) -> None:
        """Run those jobs that have no result yet, each once, and give all jobs their results."""
        keys = [job.identity for job in jobs]
        fresh = {key: job for key, job in zip(keys, jobs, strict=True) if key not in self._known}
        run(list(fresh.values()))
        self.equal += len(jobs) - len(fresh)
        self._known.update({key: (job.output, job.outcome) for key, job in fresh.items()})
        for key, job in zip(keys, jobs, strict=True):
            job.output, job.outcome = self._known[key]


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
