"""One task of the sink.

Writes the records of its topic-partitions in one transaction, and returns log entries to the driver.

Spark gives tasks to workers in turn. A worker that writes a slot after another one would have to open a writer, which
fences that of the other and takes longer than to write a small batch. So it passes the records to that worker.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Client, Connection
from pathlib import Path
from threading import Thread

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException
from pyspark.sql.pandas.types import from_arrow_schema

from kestrel_sql.dataflow.log_entries import EntryRow
from kestrel_sql.kafka.client.acls import needed
from kestrel_sql.kafka.client.client_cache import Kept
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Offsets, Position
from kestrel_sql.kafka.sink.transaction import Layout, Mark, Marks, WriteError, Writer
from kestrel_sql.spark.io.topics import LOGGED

WROTE, ENTRY, FAILED = range(3)

_REPORT = pa.schema(
    [
        ("what", pa.int32()),
        ("records", pa.int64()),
        ("slot", pa.int32()),
        ("worker", pa.string()),
        ("q", pa.int32()),
        ("ordinal", pa.list_(pa.int64())),
        *LOGGED,
    ]
)

REPORT = from_arrow_schema(_REPORT)
"""A row of the report: what a worker wrote for a slot, a log entry, or the reason of a failure (`message`).

Spark would parse a text anew for each batch.
"""


class ReportRow(EntryRow, total=False):
    """A row of the report."""

    what: int
    records: int
    slot: int
    worker: str | None
    q: int
    ordinal: list[int]
    strays: int
    reach: Offsets


_MAX_WRITERS = 32
"""The most open writers.

If a run has more queries times slots, every batch opens new ones, which fence the previous ones (ADR 16).
"""

_SOCKETS = "PYTHON_WORKER_FACTORY_SOCK_DIR"
"""Spark's variable for the folder of its sockets."""

_SERVING = "writing for a worker"

_LOST = "the worker that had the writer of its records has ended"

_writers: Kept[tuple[str, int], Writer] = Kept(_MAX_WRITERS)
"""The writers of this worker process: opening one takes several round trips to the broker."""


class Job(msgspec.Struct, frozen=True):
    """A batch to write, the same for all its tasks; `owners` are the workers that wrote the slots of the last one."""

    config: KafkaConfig
    query: str
    batch: int
    run: int
    layout: Layout
    transactional: bool
    owners: Mapping[int, str]


class Share(msgspec.Struct):
    """The records of a batch that one task writes.

    Its transaction commits the offsets up to which the task `reads`, if it reads the records of sources itself. Else it
    commits the number of the batch, as the offset of a topic-partition that no other task has, and that is the same
    when the batch is replayed: `place`, or by default that of the first record, to which no other task writes.
    """

    job: Job
    slot: int
    reads: Marks = {}
    place: Position | None = None
    _marks: Marks = {}
    _writer: Writer | None = None
    _owner: Connection | None = None
    """The worker that has the writer, if it is another one."""
    _is_done: bool = False
    _records: int = msgspec.field(default=0)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all records, commit, and return rows of `REPORT`.

        An error is a row as well, because users need no Python traceback.
        """
        try:
            for batch in batches:
                kinds = batch.column("kind")
                if kinds.null_count == len(kinds):
                    self._send(batch)
                else:
                    yield _entries(batch.filter(kinds.is_valid()))
                    self._send(batch.filter(kinds.is_null()))
            if self._owner is not None:
                yield _answer(self._owner)
                return
            self._commit()
        except (WriteError, KafkaException) as error:
            self._abort()
            yield pa.RecordBatch.from_pylist([failure(self.job, error)], schema=_REPORT)
        else:
            worker = None if self._writer is None else this_worker()
            wrote = {"what": WROTE, "records": self._records, "slot": self.slot, "worker": worker}
            yield pa.RecordBatch.from_pylist([wrote], schema=_REPORT)
        finally:
            if self._owner is not None:
                self._owner.close()

    def _send(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._records += batch.num_rows
        if self._writer is None and self._owner is None:
            self._owner = _connected(self.job.owners.get(self.slot))
            if self._owner is None:
                self._open(batch)
            else:
                _pass(self._owner, Share(self.job, self.slot, self.reads, self.place))
        if self._owner is not None:
            _pass(self._owner, batch)
            return
        writer = self._writer
        if writer is None or self._is_done:
            return
        partitions = batch.column("partition")
        if partitions.null_count:
            raise WriteError(f"topic {batch.filter(pc.is_null(partitions)).column('topic')[0]} does not exist")
        writer.send(batch)

    def _open(self, batch: pa.RecordBatch) -> None:
        """Open or reuse a writer and begin a transaction, unless an earlier attempt of this batch was committed."""
        names = batch.column("topic").unique().to_pylist()
        counts = self.job.layout.partitions
        topics = {name: counts[name] for name in names if name in counts}
        if names[0] not in topics:
            raise WriteError(f"topic {names[0]} does not exist")
        place = self.place or (names[0], batch.column("partition")[0].as_py())
        self._marks = self.reads or {place: self.job.batch}
        _listen()
        _close_fenced(self.job)
        last = _writers.take(self.job.config, (self.job.query, self.slot))
        if last is not None and last.serves(frozenset(topics)) and self._reuses(last, topics):
            return
        writer = Writer(
            self.job.config, self.job.query, self.slot, frozenset(topics), transactional=self.job.transactional
        )
        if self.job.transactional:
            self._is_done = self._is_written(writer)
        # From here on an error aborts the transaction, even if it was only half begun.
        self._writer = writer
        if self.job.transactional and not self._is_done:
            writer.begin(self._marks, self._metadata(topics))

    def _reuses(self, writer: Writer, topics: Mapping[str, int]) -> bool:
        """Begin a transaction with a writer of an earlier batch; False if it cannot."""
        if self.job.transactional:
            self._is_done = writer.last == self._marks
            try:
                if not self._is_done:
                    writer.begin(self._marks, self._metadata(topics))
            except KafkaException:
                return False
        self._writer = writer
        return True

    def _metadata(self, topics: Mapping[str, int]) -> str:
        return self.job.layout.to_json(self.job.run, topics)

    def _is_written(self, writer: Writer) -> bool:
        """Whether an earlier attempt has committed the marks, all of them in one transaction."""
        found = zip(self._marks.items(), writer.committed(self._marks), strict=True)
        reached = [(position, mark) for (position, wanted), mark in found if mark and mark.number >= wanted]
        for position, mark in reached:
            if mark.number > self._marks[position] or mark.run > self.job.run:
                raise _newer(self.job, mark, position if self.reads else None)
        return bool(reached)

    def _commit(self) -> None:
        writer = self._writer
        if writer is None:
            return
        if not self._is_done:
            if self.job.transactional:
                writer.commit(self._marks)
            else:
                writer.flush()
        _writers.keep(self.job.config, (self.job.query, self.slot), writer)

    def _abort(self) -> None:
        if self._writer is not None and self.job.transactional:
            self._writer.abort()


def taken_over(job: Job, slot: int, positions: Iterable[Position], sinks: Iterable[str]) -> Marks:
    """Open the writer of a slot, which fences that of an earlier attempt; return the offsets that those committed.

    Raises:
        WriteError: a newer run has committed some.
        KafkaException: the broker does not answer, or refuses.
    """
    wanted = [*positions]
    writer = Writer(job.config, job.query, slot, frozenset(sinks), transactional=True)
    _listen()
    _writers.keep(job.config, (job.query, slot), writer)
    marks = {place: mark for place, mark in zip(wanted, writer.committed(wanted), strict=True) if mark is not None}
    for place, mark in marks.items():
        if mark.run > job.run:
            raise _newer(job, mark, place)
    return {place: mark.number for place, mark in marks.items()}


def failure(job: Job, error: WriteError | KafkaException) -> ReportRow:
    """Return the row of the report on a share that could not be written."""
    if isinstance(error, WriteError):
        return {"what": FAILED, "message": str(error)}
    reason = error.args[0]
    missing = needed(reason)
    said = f"the broker {job.config.servers}: {reason.str()}" + (f"; {missing}" if missing else "")
    return {"what": FAILED, "message": said}


def _newer(job: Job, mark: Mark, place: Position | None) -> WriteError:
    """The error of a run that is not the latest; `place` is the partition whose offset the mark is."""
    what = "batch" if place is None else f"what {place[0]}, partition {place[1]}, holds up to offset"
    return WriteError(
        f"run {mark.run} has already written {what} {mark.number}: run {job.run} or its checkpoint is not the latest"
    )


def entries_in(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the log entries of a batch as rows of `REPORT`, and write nothing."""
    for batch in batches:
        kinds = batch.column("kind")
        if kinds.null_count < len(kinds):
            yield _entries(batch.filter(kinds.is_valid()))


def this_worker() -> str:
    """The name of this process."""
    return f"{socket.gethostname()}-{os.getpid()}"


def _path(worker: str) -> Path | None:
    """Where a worker of this machine listens; None without a folder that nobody else may enter, as on a cluster."""
    host, _, process = worker.rpartition("-")
    folder = Path(os.environ.get(_SOCKETS, "/"))
    is_own = host == socket.gethostname() and folder.is_dir() and not folder.stat().st_mode & 0o077
    return folder / process if is_own else None


@cache
def _listen() -> None:
    """Write for other workers of this machine from now on, each in a thread of its own."""
    path = _path(this_worker())
    if path is None:
        return
    # A worker that has ended may have had the same number.
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def accept() -> None:
        while True:
            connection = Connection(listener.accept()[0].detach())
            Thread(target=_serve, args=(connection,), name=_SERVING, daemon=True).start()

    Thread(target=accept, name="listening for workers", daemon=True).start()


def _connected(worker: str | None) -> Connection | None:
    """Connect to a worker; None if it is this one, ended, or on another machine."""
    path = None if worker is None or worker == this_worker() else _path(worker)
    if path is None:
        return None
    with suppress(OSError):
        return Client(str(path), "AF_UNIX")
    return None


def _serve(connection: Connection) -> None:
    """Write the share of a task of another worker. If that ends before it has passed all, nothing is committed."""
    with connection, suppress(OSError, EOFError):
        share: Share = connection.recv()
        records = iter(connection.recv, None)
        (report,) = share.write(records)
        # After an error there are more, and the other one reads only when it has passed all.
        deque(records, maxlen=0)
        connection.send(report)


def _pass(owner: Connection, given: Share | pa.RecordBatch | None) -> None:
    try:
        owner.send(given)
    except OSError as error:
        raise WriteError(_LOST) from error


def _answer(owner: Connection) -> pa.RecordBatch:
    """The report of a worker that gets no more records."""
    _pass(owner, None)
    try:
        return owner.recv()
    except (OSError, EOFError) as error:
        raise WriteError(_LOST) from error


def _close_fenced(job: Job) -> None:
    """Close the writers of slots that another worker has written since: a fenced one only keeps its connections."""
    for query, slot in _writers:
        if query == job.query and job.owners.get(slot) != this_worker():
            _writers.take(job.config, (query, slot))


def _entries(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, type_)
        for name, type_ in zip(_REPORT.names, _REPORT.types, strict=True)
    ]
    columns[0] = pa.array([ENTRY] * batch.num_rows, pa.int32())
    return pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, _REPORT, strict=True)], schema=_REPORT)
