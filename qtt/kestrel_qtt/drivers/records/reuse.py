"""Results of queries that already ran: the same query over the same records is not run again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.records.run import CaseJob
from kestrel_sql.dataflow.rows import Output


@dataclass(slots=True)
class QueryResults:
    """The outputs of queries, or why there is none, by what determines them: plan, settings, schemas and records.

    Variants of one case have most queries in common, so `qtt shrink` and `qtt mutate` run them over one `QueryResults`.
    So does pytest: most stored plans are what the planner makes of their case today. `equal` counts the queries that
    took the result of another. Not for several threads.
    """

    equal: int = 0

    _known: dict[Hashable, tuple[Output | None, model.Rejected | model.Crashed | None]] = field(default_factory=dict)

    def run(self, jobs: Sequence[CaseJob], run: Callable[[Sequence[CaseJob]], None]) -> None:
        """Run those jobs that have no result yet, each once, and give all jobs their results."""
        keys = [job.identity for job in jobs]
        fresh = {key: job for key, job in zip(keys, jobs, strict=True) if key not in self._known}
        run(list(fresh.values()))
        self.equal += len(jobs) - len(fresh)
        self._known.update({key: (job.output, job.outcome) for key, job in fresh.items()})
        for key, job in zip(keys, jobs, strict=True):
            job.output, job.outcome = self._known[key]
