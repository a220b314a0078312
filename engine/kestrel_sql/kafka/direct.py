"""Reads, computes and writes a batch of a query without state in one job (docs/adr/0047).

Spark plans the batch: which offsets of the source it spans. Each task takes some partitions of the source, and writes
what comes of their records in one transaction, which also commits the offsets that it has read. So a batch that is
repeated finds what its first attempt has written, whatever the tasks that wrote it.

Where there is room, a task stays for a while and writes what comes behind its records, a transaction each time; Spark's
log then gets the offsets where the batch has ended (docs/adr/0055).
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException
from msgspec.structs import replace
from pyspark import SparkContext, TaskContext, cloudpickle

from kestrel_sql.dataflow.log_entries import FATAL, log_entry
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Offsets
from kestrel_sql.kafka.sink.distribute import in_pieces, with_partitions
from kestrel_sql.kafka.sink.sink import Delivery, Written, fence, forget, layout_now, outcome, owners
from kestrel_sql.kafka.sink.task import (
    ENTRY,
    FAILED,
    WROTE,
    Job,
    ReportRow,
    Share,
    entries_in,
    failure,
    taken_over,
    this_worker,
)
from kestrel_sql.kafka.sink.transaction import Marks, WriteError
from kestrel_sql.kafka.source.merged_source import follow, numbered, read_merged
from kestrel_sql.kafka.source.ranges import AT_ONCE, Range
from kestrel_sql.spark.checkpoint.batch_log import extend_batch, offsets_of, unfinished_batch
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.topics import ARROW_OUTPUT
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath
from kestrel_sql.topics.records import LogEntry

READ = -1
"""The kind of a row that counts the records which a task has read; others are as in `kestrel_sql.kafka.sink.task`."""

_MAX_FUNCTIONS = 64

STAY_S = 2.0
"""How long (s) tasks stay from the beginning of a batch; a query that is stopped waits for them."""


class Work(msgspec.Struct, frozen=True):
    """What the tasks of a query do with records.

    `function` makes rows of `WIRE_OUTPUT` of rows of `WIRE_INPUT`, and is pickled. `tails` is as in
    `kestrel_sql.kafka.sink.partitioner.bare_keys`. `partitions` is the number of partitions of the source.
    """

    function: bytes
    digest: bytes
    tails: Mapping[str, int]
    partitions: int

    @staticmethod
    def of(function: Pass, tails: Mapping[str, int], partitions: int) -> Work:
        """Pickle a function, once for all batches."""
        pickled: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        return Work(pickled, hashlib.sha256(pickled).digest(), tails, partitions)


@dataclass(slots=True)
class DirectBatches:
    """The batches of a query without state.

    Attributes:
        query: the name of the query, from which those of its consumer group and transactional ids are made.
        config: the broker.
        delivery: the guarantee.
        run: the number of the start from the checkpoint.
        start: the offsets where the first batch begins.
        folder: Spark's checkpoint, whose log says which offsets a batch spans.
        work: what is done with the records.
        limit: the most records of a batch that Spark plans, and of what the tasks that stay take together.
    """

    query: str
    config: KafkaConfig
    delivery: Delivery
    run: int
    start: Offsets
    folder: CheckpointPath
    work: Work
    limit: int
    _interrupted: int | None = field(init=False)
    _last: tuple[int, Offsets] = field(init=False)
    """The last batch, and the offsets where it ends."""
    _planned: Offsets = field(init=False, default_factory=dict)
    """Where it ends in Spark's log."""
    _merges: bool = False
    """Whether one task merges all partitions, since keys do not lie where Java's partitioner puts them.

    A start looks for such topics (`kestrel_sql.kafka.source.placement`), but a topic may be empty then.
    """

    def __post_init__(self) -> None:
        """Look whether a batch was begun by an earlier process."""
        self._interrupted = unfinished_batch(self.folder)
        self._last = (-1, self.start)

    @property
    def group(self) -> str:
        """The consumer group that has the offsets of the source, which is not that of the sink (ADR 16)."""
        return f"{self.query}-source"

    def close(self) -> None:
        """Close the clients that the driver keeps for the query, which must have ended."""
        forget(self.config, self.group)

    def is_begun_by_sink(self, batch: int, slots: int, sinks: Iterable[str]) -> bool:
        """Whether the sink of an earlier release has written a part of a batch, which it then has to finish.

        Raises:
            QueryError: the broker does not answer.
        """
        is_possible = self.delivery is Delivery.EXACTLY_ONCE and batch == self._interrupted
        return is_possible and fence(self.config, self.query, batch, slots, sinks)

    def write(
        self,
        spark: SparkContext,
        batch: int,
        slots: int,
        check: Callable[[Sequence[LogEntry]], None] | None = None,
        room: int = 0,
    ) -> tuple[int, Written]:
        """Write a batch; returns how many records were read, and what was written.

        `slots` and `check` are as in `kestrel_sql.kafka.sink.sink.write_batch`. With `check` the batch is computed once
        more before, without writing it. `room` is how many tasks may stay.

        Raises:
            QueryError: the broker refuses a record or does not answer; names topic, partition and offset of the source
                record.
        """
        shares = self._shares(batch, slots)
        planned = sum(each.end - each.start for _, ranges in shares for each in ranges)
        if not planned:
            self._note(batch, ())
            return 0, Written(records=0, entries=())
        begun = [share for share in shares if any(each.end > each.start for each in share[1])]
        layout = layout_now(self.config, self.group, slots)
        transactional = self.delivery is Delivery.EXACTLY_ONCE
        is_repeated = transactional and batch == self._interrupted
        if is_repeated:
            # Its partitions may have had other slots.
            fence(self.config, self.group, batch, slots, self.work.tails)
        # What an earlier attempt has opened is fenced.
        known = {} if is_repeated else owners(self.group)
        job = Job(self.config, self.group, batch, self.run, layout, transactional, known)
        if check is not None:
            found = _collected(spark, begun, partial(_computed, job, self.work))
            check([log_entry(row) for row in sorted(found, key=lambda row: row["ordinal"])])
        stays = transactional and check is None and len(shares) <= room and self._is_stay_worthwhile(planned)
        stay = (STAY_S, max(1, self.limit // len(shares))) if stays else None
        task = partial(_written, job, self.work, is_repeated, stay)
        rows = _collected(spark, shares if stays else begun, task)
        written = outcome(job, rows)
        reads = [row for row in rows if row["what"] == READ]
        self._merges = self._merges or any(row["strays"] for row in reads)
        self._note(batch, [row["reach"] for row in reads])
        return sum(row["records"] for row in reads), written

    def _is_stay_worthwhile(self, planned: int) -> bool:
        """Whether tasks should go on by themselves behind a batch: they have caught up, or Spark would plan no more."""
        # Spark rounds the share of each partition down.
        return planned + len(self._planned) < self.limit or self.limit <= AT_ONCE

    def _note(self, batch: int, reached: Iterable[Offsets]) -> None:
        """Remember how far the tasks have read, and put it into Spark's log where that is further than planned."""
        ends = {**self._last[1], **{place: end for each in reached for place, end in each.items()}}
        self._last = batch, ends
        if ends != self._planned:
            extend_batch(self.folder, batch, ends)

    def _shares(self, batch: int, slots: int) -> list[_Share]:
        """The ranges of a batch by slot.

        A partition keeps its slot for as long as there is the checkpoint, which fixes the number of slots, unless one
        task merges all.
        """
        number, start = self._last
        if number != batch - 1:
            start = {**self.start, **offsets_of(self.folder, batch - 1)}
        self._planned = offsets_of(self.folder, batch)
        # The tasks of the last batch may have read on behind what Spark plans now.
        ends = {place: max(end, start[place]) for place, end in self._planned.items()}
        self._last = batch, ends
        shares: dict[int, list[Range]] = defaultdict(list)
        for (topic, partition), end in sorted(ends.items()):
            slot = 0 if self._merges else partition % slots
            shares[slot].append(Range(topic, partition, start[topic, partition], end))
        return [*shares.items()]


_Share = tuple[int, Sequence[Range]]
"""A slot, and what it reads."""


def _collected(
    spark: SparkContext, shares: Sequence[_Share], function: Callable[[_Share], Iterable[ReportRow]]
) -> list[ReportRow]:
    """What a function makes of shares, each in a task.

    `RDD.collect` reads the byte code of Spark's largest classes each time (ADR 23).
    """
    rows = spark.parallelize(shares, len(shares)).flatMap(function)
    pickled = rows._jrdd.collectAsync().get()  # noqa: SLF001 - Python has no such call
    return [row for each in pickled for row in pickle.loads(each)]


_Stay = tuple[float, int]
"""How long (s) a task stays, and the most records that it takes together."""


def _written(job: Job, work: Work, is_repeated: bool, stay: _Stay | None, share: _Share) -> Iterator[ReportRow]:
    context: Any = TaskContext.get()
    return _Task(job, work, *share, is_repeated=is_repeated or context.attemptNumber() > 0).rows(stay)


def _computed(job: Job, work: Work, share: _Share) -> Iterator[ReportRow]:
    return _Task(job, work, *share).entries(share[1])


class _Task(msgspec.Struct):
    """Writes what comes of the records of ranges."""

    job: Job
    work: Work
    slot: int
    ranges: Sequence[Range]
    is_repeated: bool = False
    _read: int = 0
    _strays: int = 0
    _written: int = 0
    """How many records an earlier attempt has written."""
    _is_ended: bool = False
    """Whether it failed, or a record ends the query."""

    def rows(self, stay: _Stay | None) -> Iterator[ReportRow]:
        """Write the records of the ranges, and for a while what comes behind them; returns rows of the report."""
        begun = time.monotonic()
        done: Marks = {}
        if self.is_repeated and self.job.transactional:
            places = [each.position for each in self.ranges]
            try:
                done = taken_over(self.job, self.slot, places, self.work.tails)
            except (WriteError, KafkaException) as error:
                yield failure(self.job, error)
                return
            self._know(this_worker())
        # Nobody may have seen the entries of what is written.
        written, left = _divided(self.ranges, done)
        if written:
            yield from self.entries(written)
            yield {"what": WROTE, "records": self._written, "slot": self.slot, "worker": None}
        reach = {each.position: max(each.end, done.get(each.position, 0)) for each in self.ranges}
        if left and not self._is_ended:
            yield from self._write(left, read_merged(self.job.config, left))
        if stay is not None and not self._is_ended:
            for ranges, rows in follow(self.job.config, reach, begun + stay[0], stay[1]):
                yield from self._write(ranges, iter([rows]))
                reach |= {each.position: each.end for each in ranges}
                if self._must_leave:
                    break
        yield {"what": READ, "records": self._read, "strays": self._strays, "reach": reach}

    @property
    def _must_leave(self) -> bool:
        return self._is_ended or self._strays > 0

    def entries(self, ranges: Sequence[Range]) -> Iterator[ReportRow]:
        """Return the entries of the processing log that the records of ranges give, and write nothing."""
        for rows in entries_in(self._counted(self._outputs(read_merged(self.job.config, ranges)))):
            yield from self._seen(rows.to_pylist())

    def _counted(self, outputs: Batches) -> Batches:
        for batch in outputs:
            self._written += batch.column("kind").null_count
            yield batch

    def _write(self, ranges: Sequence[Range], records: Batches) -> Iterator[ReportRow]:
        marks = {each.position: each.end for each in ranges}
        for rows in Share(self.job, self.slot, marks).write(self._outputs(records)):
            yield from self._seen(rows.to_pylist())

    def _seen(self, rows: Iterable[ReportRow]) -> Iterator[ReportRow]:
        for row in rows:
            what = row["what"]
            if what == FAILED or (what == ENTRY and row["kind"] == FATAL):
                self._is_ended = True
            elif what == WROTE and row["worker"]:
                self._know(row["worker"])
            yield row

    def _know(self, worker: str) -> None:
        """Remember which worker has the writer of the slot."""
        self.job = replace(self.job, owners={**self.job.owners, self.slot: worker})

    def _outputs(self, records: Batches) -> Batches:
        function = _function(self.work)
        for batch in in_pieces(function(self._numbered(records))):
            rows = with_partitions(
                pa.RecordBatch.from_arrays(batch.columns, schema=ARROW_OUTPUT),
                self.job.layout,
                self.work.tails,
                self.slot,
            )
            self._strays += strays_in(rows, self.slot, self.job.layout.slots, self.work.partitions)
            yield rows

    def _numbered(self, records: Batches) -> Batches:
        """The records as rows of `WIRE_INPUT`; their number is their offset, because partitions are independent."""
        for rows in records:
            self._read += rows.num_rows
            yield numbered(rows, rows.column("off"))


def _divided(ranges: Sequence[Range], done: Marks) -> tuple[list[Range], list[Range]]:
    """The parts of ranges that are written up to offsets, which may lie behind their ends, and those that are left."""
    ends = [max(each.start, done.get(each.position, 0)) for each in ranges]
    written = [replace(each, end=end) for each, end in zip(ranges, ends, strict=True) if end > each.start]
    return written, [replace(each, start=end) for each, end in zip(ranges, ends, strict=True) if each.end > end]


def strays_in(rows: pa.RecordBatch, slot: int, slots: int, partitions: int) -> int:
    """How many records with keys another slot would have written, if all keys lay where Java's partitioner puts them.

    `partitions` is the number of partitions of the source, of which those of a sink are a multiple.
    """
    keyed = rows.filter(pc.and_(rows.column("key").is_valid(), rows.column("partition").is_valid()))
    own = keyed.column("partition").to_numpy() % partitions % slots
    return int((own != slot).sum())


_functions: dict[bytes, Pass] = {}
"""The functions that this worker has unpickled."""


def _function(work: Work) -> Pass:
    if work.digest not in _functions:
        while len(_functions) >= _MAX_FUNCTIONS:
            del _functions[next(iter(_functions))]
        _functions[work.digest] = pickle.loads(work.function)
    return _functions[work.digest]
