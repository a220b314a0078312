"""Reads, computes and writes a batch of a query without state in one job (docs/adr/0047).

Spark plans the batch: which offsets of the source it spans. Each task takes some partitions of the source, and writes
what comes of their records in one transaction, which also commits the offsets that it has read. So a batch that is
repeated finds what its first attempt has written, whatever the tasks that wrote it.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext, cloudpickle

from kestrel_sql.dataflow.log_entries import log_entry
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Offsets
from kestrel_sql.kafka.sink.distribute import in_pieces, with_partitions
from kestrel_sql.kafka.sink.sink import Delivery, Written, fence, forget, layout_now, outcome, owners
from kestrel_sql.kafka.sink.task import Job, ReportRow, Share, entries_in
from kestrel_sql.kafka.source.merged_source import numbered, read_merged
from kestrel_sql.kafka.source.ranges import Range
from kestrel_sql.spark.checkpoint.batch_log import offsets_of, unfinished_batch
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.topics import ARROW_OUTPUT
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath
from kestrel_sql.topics.records import LogEntry

READ = -1
"""The kind of a row that counts the records which a task has read; others are as in `kestrel_sql.kafka.sink.task`."""

_MAX_FUNCTIONS = 64


@dataclass(frozen=True, slots=True)
class Work:
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
    """

    query: str
    config: KafkaConfig
    delivery: Delivery
    run: int
    start: Offsets
    folder: CheckpointPath
    work: Work
    _interrupted: int | None = field(init=False)
    _last: tuple[int, Offsets] = field(init=False)
    """The last batch, and the offsets where it ends."""
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
    ) -> tuple[int, Written]:
        """Write a batch; returns how many records were read, and what was written.

        `slots` and `check` are as in `kestrel_sql.kafka.sink.sink.write_batch`. With `check` the batch is computed once
        more before, without writing it.

        Raises:
            QueryError: the broker refuses a record or does not answer; names topic, partition and offset of the source
                record.
        """
        shares = self._shares(batch, slots)
        if not shares:
            return 0, Written(records=0, entries=())
        layout = layout_now(self.config, self.group, slots)
        transactional = self.delivery is Delivery.EXACTLY_ONCE
        if transactional and batch == self._interrupted:
            # Its partitions may have had other slots.
            fence(self.config, self.group, batch, slots, self.work.tails)
        job = Job(self.config, self.group, batch, self.run, layout, transactional, owners(self.group))
        if check is not None:
            found = _collected(spark, shares, partial(_computed, job, self.work))
            check([log_entry(row) for row in sorted(found, key=lambda row: row["ordinal"])])
        rows = _collected(spark, shares, partial(_written, job, self.work))
        written = outcome(job, rows)
        reads = [row for row in rows if row["what"] == READ]
        self._merges = self._merges or any(row["strays"] for row in reads)
        return sum(row["records"] for row in reads), written

    def _shares(self, batch: int, slots: int) -> list[_Share]:
        """The ranges of a batch by slot.

        A partition keeps its slot for as long as there is the checkpoint, which fixes the number of slots, unless one
        task merges all.
        """
        number, start = self._last
        if number != batch - 1:
            start = {**self.start, **offsets_of(self.folder, batch - 1)}
        ends = offsets_of(self.folder, batch)
        self._last = batch, {**start, **ends}
        shares: dict[int, list[Range]] = defaultdict(list)
        for (topic, partition), end in sorted(ends.items()):
            if end > start[topic, partition]:
                shares[0 if self._merges else partition % slots].append(
                    Range(topic, partition, start[topic, partition], end)
                )
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


def _written(job: Job, work: Work, share: _Share) -> Iterator[ReportRow]:
    slot, ranges = share
    records = _Records(job, ranges)
    writer = Share(job, slot, {(each.topic, each.partition): each.end for each in ranges})
    for rows in writer.write(_outputs(job, work, slot, records)):
        yield from rows.to_pylist()
    yield {"what": READ, "records": records.read, "strays": records.strays}


def _computed(job: Job, work: Work, share: _Share) -> Iterator[ReportRow]:
    for rows in entries_in(_outputs(job, work, share[0], _Records(job, share[1]))):
        yield from rows.to_pylist()


class _Records:
    """The records of ranges as rows of `WIRE_INPUT`, in the order of their timestamps.

    Their number is their offset, because partitions are independent.
    """

    def __init__(self, job: Job, ranges: Sequence[Range]) -> None:
        self._job, self._ranges = job, ranges
        self.read = self.strays = 0

    def __iter__(self) -> Batches:
        for rows in read_merged(self._job.config, self._ranges):
            self.read += rows.num_rows
            yield numbered(rows, rows.column("off"))


def _outputs(job: Job, work: Work, slot: int, records: _Records) -> Batches:
    function = _function(work)
    for batch in in_pieces(function(iter(records))):
        rows = with_partitions(
            pa.RecordBatch.from_arrays(batch.columns, schema=ARROW_OUTPUT), job.layout, work.tails, slot
        )
        records.strays += strays_in(rows, slot, job.layout.slots, work.partitions)
        yield rows


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
