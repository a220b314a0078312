"""Topics on a real broker.

Each case has its own, its inputs are produced to them, and what its queries wrote is consumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count, islice
from uuid import uuid4

from msgspec.structs import replace

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.cut import Cut
from kestrel_qtt.drivers.driver import DriverError
from kestrel_qtt.drivers.fused import run_jobs
from kestrel_qtt.drivers.kafka.partitions import OwnTopics, given_records, in_expected_order, misplaced
from kestrel_qtt.drivers.kafka.runner import FusedQuery, FusedRunner
from kestrel_qtt.drivers.kafka.scratch_topics import ScratchTopics
from kestrel_qtt.drivers.records.run import CaseJob, CaseRun, CaseTopics
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.topics.records import Record


class BrokerTopics(CaseTopics):
    """The topics of cases on one broker, read and written by one Spark session."""

    def __init__(self, servers: str) -> None:
        """Connect to the broker and start Spark.

        Raises:
            DriverError: the broker does not answer, or Spark cannot be started.
        """
        self._prefix = f"qtt-{uuid4().hex[:8]}"
        self._numbers = count()
        self._own: dict[CaseRun, OwnTopics] = {}
        try:
            self._scratch = ScratchTopics(KafkaConfig.of(servers))
            self._broker = FusedRunner(self._scratch, self._prefix)
        except EngineError as error:
            raise DriverError(error.render()) from error

    def begin(self, runs: Sequence[CaseRun]) -> None:
        """Create the topics of the planned cases, and produce their inputs."""
        made = {run: self._made(run) for run in runs if run.outcome is None}
        self._scratch.make({name: n for own in made.values() for name, n in own.on_broker().items()})
        given = {run: list(given_records(run)) for run in made}
        asked = (replace(record, topic=made[run].names[record.topic]) for run in given for record in given[run])
        sent = iter(self._scratch.send(list(asked)))
        for run, records in given.items():
            take_sent(run, records, list(islice(sent, len(records))))

    def run(self, jobs: Sequence[CaseJob], cut: Cut) -> None:
        """Run the queries over what their topics hold; the broker cuts the input as it does."""
        run_jobs(jobs, lambda pipeline, members: self._broker.run(pipeline, [self._query(job) for job in members]))

    def collect(self, job: CaseJob, output: Output) -> None:
        """Hand what a query wrote to its case, at the positions that the broker gave it."""
        run, counts = job.case_run, self._own[job.case_run].counts
        run.collect(output)
        stray = misplaced(run, output.records)
        if stray is not None and run.outcome is None:
            where = f"topic {stray.topic}, partition {stray.partition}, offset {stray.offset}"
            run.outcome = model.Crashed(f"{where}: the key {stray.key!r} of the record belongs to another partition")
        # The whole topic is read, including what earlier queries wrote to it.
        for topic in {record.topic for record in output.records}:
            records = [record for record in output.records if record.topic == topic]
            run.topics[topic] = in_expected_order(run, topic, records, counts[topic])

    def end(self, runs: Sequence[CaseRun]) -> None:
        """Remove the topics of a group."""
        gone = (self._own.pop(run) for run in runs if run in self._own)
        self._scratch.remove(chain.from_iterable(own.names.values() for own in gone))

    def close(self) -> None:
        """Remove what is kept on disk, and close the clients."""
        self._broker.close()
        self._scratch.close()

    def _made(self, run: CaseRun) -> OwnTopics:
        self._own[run] = OwnTopics.of(run, f"{self._prefix}-{next(self._numbers)}")
        return self._own[run]

    def _query(self, job: CaseJob) -> FusedQuery:
        own = self._own[job.case_run]
        tasks = max(own.counts_read(job.case_run, job.query), default=1)
        return FusedQuery(topics=own.names, feed=job.feed, tasks=tasks)


def take_sent(run: CaseRun, given: Sequence[Record], sent: Sequence[Record | str]) -> None:
    """Give the inputs of a case the positions of the broker; a record that it refuses is the outcome of the case."""
    refused = next((record for record in sent if isinstance(record, str)), None)
    if refused is not None:
        run.outcome = model.Crashed(f"the broker refused an input: {refused}")
        return
    stored = [
        replace(record, topic=asked.topic)
        for record, asked in zip(sent, given, strict=True)
        if isinstance(record, Record)
    ]
    run.inputs, inserted = stored[: len(run.inputs)], stored[len(run.inputs) :]
    run.topics = {}
    for record in inserted:
        run.topics.setdefault(record.topic, []).append(record)
