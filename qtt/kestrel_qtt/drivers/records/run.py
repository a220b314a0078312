"""A case on its way through the rounds: what it feeds its queries, and what they wrote so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import zip_longest

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.job import Job, failure
from kestrel_qtt.drivers.partitions import Partitions, declared_partitions, named_partitions
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.java.hash_order import java_hash_order
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.topics.records import LogEntry, Record

Position = tuple[str, int, int]
"""Topic, partition and offset of a record."""


@dataclass(slots=True, eq=False)
class CaseRun:
    """A planned case.

    The queries still to run, its input records, and the records of each topic that they and INSERT wrote.

    `given` has the inputs of the case by their positions, `causes` that input which caused a written record, by topic
    and offset. Once there is an `outcome`, no more of its queries are run.
    """

    case: model.Case
    session: Session
    pending: list[PersistentQuery] = field(default_factory=list)
    topics: dict[str, list[Record]] = field(default_factory=dict)
    inputs: list[Record] = field(default_factory=list)
    given: dict[Position, model.InputRecord] = field(default_factory=dict)
    causes: dict[Position, model.InputRecord] = field(default_factory=dict)
    log: list[LogEntry] = field(default_factory=list)
    partitions: Partitions = field(init=False)
    outcome: model.Outcome | None = None
    seconds: float = 0.0

    @property
    def is_active(self) -> bool:
        """Whether queries are still to be run."""
        return self.outcome is None and bool(self.pending)

    def __post_init__(self) -> None:
        """Find the partitions; ksqlDB's own cases run in one, whatever they declare."""
        if self.case.tolerant:
            self.partitions = Partitions(self.session)
        else:
            declared, named = declared_partitions(self.case.topics), named_partitions(self.case.inputs)
            self.partitions = Partitions(self.session, declared, named)

    def topics_read(self, query: PersistentQuery) -> Iterator[str]:
        """The topics that a query reads."""
        sources = self.session.catalog.sources
        return (sources[name].topic for name in query.plan.sources if name in sources)

    def query_run(self, query: PersistentQuery) -> QueryRun:
        """What the pipeline needs to know of a query."""
        return QueryRun(plan=query.plan, settings=query.config, serde=self.session.serde())

    def feed_of(self, query: PersistentQuery) -> list[Record]:
        """What a query is fed.

        The inputs for its topics in the order of the case, then what others wrote to the rest of them; ksqlDB's harness
        keeps the topics in a `HashMap`.
        """
        topics = java_hash_order(self.topics_read(query))
        given = {record.topic for record in self.inputs}
        derived = (record for topic in topics if topic not in given for record in self.topics.get(topic, ()))
        return [*(record for record in self.inputs if record.topic in topics), *derived]

    def job(self, query: PersistentQuery, *, may_share: bool = False) -> CaseJob:
        """A query with what it is to be run over."""
        return CaseJob(
            case_run=self,
            query=query,
            may_share=may_share,
            run=self.query_run(query),
            functions=self.session.functions,
            feed=self.feed_of(query),
            partitions=(
                declared_partitions(self.case.topics)
                if self.case.tolerant
                else {topic: self.partitions.count(topic) for topic in self.topics_read(query)}
            ),
        )

    def collect(self, output: Output) -> None:
        """Take over what a query wrote and logged; one that died ends the case."""
        self.log += output.log
        self.outcome = failure(output)
        if self.outcome is not None:
            return
        given = {record.topic for record in self.inputs}
        for record, position in zip_longest(output.records, output.causes):
            stored = self.partitions.stored(record)
            if position is not None:
                cause = (self.given if position[0] in given else self.causes).get(position)
                if cause is not None:
                    self.causes[stored.topic, stored.partition, stored.offset] = cause
            self.topics.setdefault(stored.topic, []).append(stored)


class CaseTopics(ABC):
    """Where the topics of cases are while these run: in memory, where cases hold their records, or on a broker."""

    carrier = "spark"
    """What runs the queries, `spark` or `process`."""
    can_share = False
    """Whether a query can read the records of several cases at once."""
    can_fork = False
    """Whether a copy of this process can run cases, too: neither Spark nor a broker is open."""

    def begin(self, runs: Sequence[CaseRun]) -> None:  # noqa: B027 - a place may need none
        """Create what the planned cases of a group need, and produce their inputs."""

    @abstractmethod
    def run(self, jobs: Sequence[CaseJob], cut: Cut) -> None:
        """Run queries, and give each job what its query wrote, or why there is nothing."""

    def collect(self, job: CaseJob, output: Output) -> None:
        """Hand what a query wrote to its case."""
        job.case_run.collect(output)

    def end(self, runs: Sequence[CaseRun]) -> None:  # noqa: B027 - a place may need none
        """Remove what a group needed."""

    def close(self) -> None:  # noqa: B027 - a place may need none
        """Remove what is kept on disk, and close clients."""


class CaseJob(Job, kw_only=True):
    """The next query of a case; it may share the query with others if their topics and the cut allow that."""

    case_run: CaseRun
    query: PersistentQuery
    may_share: bool = False

    def tasks(self) -> int:
        """How many tasks the query has: the partitions of the widest topic that it reads."""
        counts = map(self.case_run.partitions.count, self.case_run.topics_read(self.query))
        return max(counts, default=1)

    @property
    def identity(self) -> Hashable:
        """All that determines what the query writes."""
        return self._query_identity(), tuple(self.feed)

    @property
    def shared(self) -> Hashable:
        """Without state, the same query over the records of several cases is one query."""
        return self._query_identity() if self.may_share and self.depth == 1 else id(self)

    def _query_identity(self) -> Hashable:
        """The hash of a text: values such as 1.0 and 1.00 are equal in Python and differ in SQL."""
        # A stored plan sets properties that its case leaves at the same default.
        settings = sorted(self.run.settings.items())
        schemas = self.case_run.session.registry.snapshot()
        plan = repr((self.run.plan, settings, schemas, sorted(self.partitions.items()), self.tasks()))
        return sha256(plan.encode()).digest(), self.functions
