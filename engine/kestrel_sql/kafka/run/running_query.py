"""A running query: a streaming query of Spark from topics to topics, which can be stopped between two batches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.dataflow.log_entries import FATAL
from kestrel_sql.errors import EngineError, KafkaConfigError, QueryError, RegistryUnavailableError
from kestrel_sql.formats.windowed_key import window_bytes
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.direct import DirectBatches, Work
from kestrel_sql.kafka.level_batches import END, LevelBatches, has_slot_per_task
from kestrel_sql.kafka.run.manifest import CheckpointFolder, StoredQuery
from kestrel_sql.kafka.run.prepare_query import Prepared
from kestrel_sql.kafka.run.progress import QueryProgress
from kestrel_sql.kafka.run.shared_source import SharedPipeline, Unit
from kestrel_sql.kafka.sink.distribute import DISTRIBUTED, distribute_batches
from kestrel_sql.kafka.sink.sink import Delivery, Written, fence, forget, likely_layout, write_batch
from kestrel_sql.kafka.sink.transaction import Layout
from kestrel_sql.kafka.source.batch_counts import Report
from kestrel_sql.kafka.source.merged_source import SourceSpec
from kestrel_sql.kafka.source.reading import Reading
from kestrel_sql.kafka.source.source import completed, open_source, spark_source
from kestrel_sql.kafka.source.whole_batches import WrittenBatches, watch
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.log_context import about
from kestrel_sql.spark.checkpoint.batch_log import partitions_of_state, unfinished_batch
from kestrel_sql.spark.io.arrow_passes import Pass, Passes, chained
from kestrel_sql.spark.io.blobs import larger
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.runtime.callback import BatchCallback
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, uri_of
from kestrel_sql.spark.state.row_counts import PageId, RowCounts
from kestrel_sql.spark.state.store_errors import error_of_text
from kestrel_sql.topics.records import LogEntry


class _StoppedError(Exception):
    """Stops a query at the start of a batch, before any work."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all queries of a run share."""

    spark: SparkSession
    config: KafkaConfig
    application: str
    run: int
    delivery: Delivery
    batch_records: int
    batches: Path
    """The folder where queries tell of their batches."""
    log: Callable[[Sequence[LogEntry]], None]
    bad: BadRecords
    stop: Event
    flaw: Callable[[StoredQuery], QueryError | None]
    """Called before a batch is written: returns an error if the topics of the query have changed."""
    span: Callable[[StoredQuery, int], int] = lambda *_: 0
    """The number of offsets that a batch of a query spans."""


class RunningQuery(msgspec.Struct, kw_only=True):
    """A query that was started; `failure` is the error if it failed.

    `resumed` are the rows of state of each page of its checkpoint (`check_start`).
    """

    stored: StoredQuery
    pipeline: Pipeline | SharedPipeline
    around: Surroundings
    folder: CheckpointPath
    """Spark's checkpoint."""
    progress: QueryProgress
    resumed: Mapping[PageId, int] = {}
    failure: EngineError | None = None
    execution: Any = None
    attempts: int = 0
    is_error_of_user: bool = False
    """Whether it failed for a record that its statement cannot process."""
    batches: WrittenBatches | None = None
    _final: EngineError | None = None
    _sink: EngineError | None = None
    _before: str = ""
    _layout: Layout | None = None
    _direct: DirectBatches | None = None
    _follows: bool = False
    """Whether it goes on when it has caught up."""
    _level: LevelBatches | None = None
    _counted: int = -1
    _spanned: int = 0
    _callback: BatchCallback | None = None
    _counts: RowCounts | None = None

    @property
    def id(self) -> str:
        """The query id."""
        return self.stored.id

    def start(self, *, until_caught_up: bool) -> None:
        """Start the query, or restart it from its checkpoint; where Spark cannot, `failure` says why."""
        self._release()
        if self.batches is not None:
            self.batches.start()
        self._before = self.failure.message if self.failure else ""
        self.failure = self._sink = self._final = None
        self.is_error_of_user = False
        self.progress.error = ""
        try:
            self.execution = self._begun(until_caught_up=until_caught_up)
        except QueryError as error:
            self.failure = error
            self.progress.error = error.message
        except (Py4JJavaError, PySparkException) as error:
            # A process that plans the source for Spark may die like any other.
            self.failure = self._error(str(error))
            self.progress.error = self.failure.message

    def _begun(self, *, until_caught_up: bool) -> object:
        around, stored = self.around, self.stored
        self._follows = not until_caught_up
        partitions = stored.partitions
        # Each query writes an output for each record that it reads, and a batch is to have no more for many queries.
        limit = max(1, around.batch_records // len(self.pipeline.query_ids))
        spec = SourceSpec(
            config=around.config, partitions=partitions, start=stored.start, limit=limit, batches=around.batches
        )
        reading = Reading(stored.reading)
        if reading is Reading.DIRECT and self.pipeline.passes is not None:
            function = chained((larger, *self.pipeline.passes))
            work = Work.of(function, self._sinks, max(partitions.values()))
            self._direct = DirectBatches(
                query=self._name,
                config=around.config,
                delivery=around.delivery,
                run=around.run,
                start=stored.start,
                folder=self.folder,
                work=work,
                limit=limit,
            )
            frame = spark_source(around.spark, spec)
        else:
            records = open_source(around.spark, spec, reading)
            self._level = self._level_batches()
            frame = self._distributed(records) if self._level is None else self._level.frame(self._made(records, END))
        self._callback = BatchCallback(self._write)
        writer = frame.writeStream.foreachBatch(self._callback).queryName(stored.id).outputMode("update")
        writer = writer.option("checkpointLocation", uri_of(self.folder))
        return (writer.trigger(availableNow=True) if until_caught_up else writer).start()

    def _distributed(self, records: Passes) -> DataFrame:
        """What the pipeline makes of records, distributed to the writers of the sink."""
        self._layout = likely_layout(self.around.config, self._name, _slots(self.around.spark))
        return self._made(records, (distribute_batches(self._layout, self._sinks), DISTRIBUTED))

    def _level_batches(self) -> LevelBatches | None:
        """What lets the last level write, if it is to; None if the sink has begun the last batch, to finish it."""
        around, stored = self.around, self.stored
        if not stored.level_writes or isinstance(self.pipeline, SharedPipeline):
            return None
        slots = partitions_of_state(self.folder) or _slots(around.spark)
        place = max(stored.partitions.items(), key=itemgetter(1))
        if not has_slot_per_task(self.pipeline.graph, place[1], slots, pages_by_task=stored.pages_by_task):
            return None
        begun = unfinished_batch(self.folder)
        if begun is not None and around.delivery is Delivery.EXACTLY_ONCE:
            if fence(around.config, self._name, begun, slots, self._sinks):
                return None
        return LevelBatches(
            query=self._name,
            config=around.config,
            delivery=around.delivery,
            run=around.run,
            place=place,
            sinks=self._sinks,
            holds=around.bad.limit is not None,
        )

    def _made(self, records: Passes, end: tuple[Pass, str]) -> DataFrame:
        """What the pipeline makes of records."""
        stored = self.stored
        self._counts = self._counts or RowCounts.of(self.around.spark, self.resumed)
        return self.pipeline.frame(
            records,
            stored.pages,
            stored.partitions,
            end=end,
            has_task_pages=stored.has_task_pages,
            pages_by_task=stored.pages_by_task,
            counts=self._counts,
        )

    @property
    def was_begun(self) -> bool:
        """Whether a start of the query was tried."""
        return self.execution is not None or self.failure is not None

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return self.execution is not None and bool(self.execution.isActive)

    def look(self) -> bool:
        """Update the progress and failure; return whether a batch was processed since the last call."""
        fresh = self.progress.add(self._reports())
        if fresh:
            self.progress.state_rows = 0 if self._counts is None else self._counts.total
            # A batch succeeded, so a later failure is a new one.
            self.attempts, self._before = 0, ""
        if not self.is_active and self.failure is None and self._final is None and not self._was_stopped():
            self.failure = self._sink or self._error(str(self.execution.exception()))
        if self._final is not None:
            self.failure = self._final
        self.progress.error = self.failure.message if self.failure else ""
        if fresh:
            self.judge()
        if self.failure is not None and not self.may_be_retried:
            self._leave()
        return fresh

    def judge(self, *, is_last: bool = False) -> None:
        """Say so if all records that the query has read are bad."""
        read = self.progress.rows_in * len(self.pipeline.query_ids)
        self.around.bad.judge(self.id, read, self.progress.bad_records, is_last=is_last)

    def _reports(self) -> list[Report]:
        """Spark's reports on batches that may be new. It keeps a hundred; to parse them all takes long."""
        last = None if self.execution is None else self.execution.lastProgress
        if last is None:
            return []
        newest = json.loads(last.json)
        if int(newest["batchId"]) <= self.progress.batch + 1:
            return [newest]
        return [json.loads(report.json) for report in self.execution.recentProgress]

    @property
    def may_be_retried(self) -> bool:
        """Whether the query failed for the first time with an error that may pass, such as an absent broker."""
        is_permanent = self._final is not None or isinstance(self.failure, KafkaConfigError)
        return self.failure is not None and not is_permanent and self.failure.message != self._before

    def retry(self, *, until_caught_up: bool) -> None:
        """Restart the query from its checkpoint, and count the attempt."""
        self.attempts += 1
        self.start(until_caught_up=until_caught_up)

    def fail(self, error: EngineError) -> None:
        """Stop the query at once, with a permanent error."""
        self._final = self.failure = error
        self.progress.error = error.message
        if self.execution is not None:
            self.execution.stop()

    def stop_if_idle(self, *, at_once: bool = False) -> bool:
        """Stop the query unless it is in a batch, or `at_once`; return whether it has ended."""
        if self.is_active and (at_once or not self.execution.status["isTriggerActive"]):
            self.execution.stop()
        if not self.is_active:
            self._leave()
        return not self.is_active

    def close(self) -> None:
        """Close the clients and connections of the query, which must have ended."""
        self._release()
        forget(self.around.config, self._name)
        for batches in (self._direct, self._level):
            if batches is not None:
                batches.close()

    def _release(self) -> None:
        if self._callback is not None:
            self._callback.close()

    def _write(self, batch: DataFrame, number: int) -> None:
        if self.around.stop.is_set():
            raise _StoppedError
        try:
            flaw = self.around.flaw(self.stored)
            if flaw is not None:
                raise flaw
            written = self._whole(batch, number)
        except QueryError as error:
            self._sink = error
            raise
        entries = [entry for _, entry in written.entries]
        self.around.log(entries)
        if number > self._counted:
            # A batch that is done again has the same records and entries.
            self._counted = number
            self._spanned += self._span(number)
            self.progress.wrote(written.records)
            with about(batch=number):
                self.around.bad.note(entries)
            self._count_flaws()
        fatal = next((entry for entry in entries if entry.kind == FATAL), None)
        if fatal is not None:
            self.is_error_of_user = True
            self._final = QueryError(
                f"{self.id}: {fatal.text} ({fatal.topic}, partition {fatal.partition}, offset {fatal.offset})"
            )
            raise self._final

    def _count_flaws(self) -> None:
        bad, progress, ids = self.around.bad, self.progress, self.pipeline.query_ids
        progress.bad_records = sum(bad.counts[query] for query in ids)
        progress.late_records = sum(bad.late[query] for query in ids)
        progress.first_late = next((bad.first_late[query] for query in ids if query in bad.first_late), "")

    def _whole(self, batch: DataFrame, number: int) -> Written:
        """Write a batch, and tell the queries that read its topics when they may take it."""
        if self.batches is None:
            return self._written(batch, number)
        self.batches.begin()
        written = self._written(batch, number)
        self.batches.end()
        return written

    def _leave(self) -> None:
        if self.batches is not None:
            self.batches.leave()

    def _written(self, batch: DataFrame, number: int) -> Written:
        around, slots = self.around, _slots(batch.sparkSession)
        check = None if around.bad.limit is None else lambda entries: self._check(number, entries)
        direct = self._direct
        if direct is not None:
            if not direct.is_begun_by_sink(number, slots, self._sinks):
                read, written = direct.write(batch.sparkSession.sparkContext, number, slots, check, self._room())
                self.progress.read(number, read)
                return written
            batch = self._distributed(completed(batch, self.stored.sources))
        if self._level is not None:
            return self._level.write(batch, number, slots, check)
        return write_batch(
            batch,
            number,
            query=self._name,
            config=around.config,
            delivery=around.delivery,
            run=around.run,
            slots=slots,
            sinks=self._sinks,
            distributed=self._layout,
            check=check,
        )

    def _room(self) -> int:
        """How many tasks of a batch may stay for further records: as many as leave others, and readers, waiting not."""
        is_awaited = self.batches is not None and self.batches.are_watched
        if is_awaited or self.stored.shared or not self._follows:
            return 0
        spark = self.around.spark
        return spark.sparkContext.defaultParallelism // max(1, len(spark.streams.active))

    def _check(self, number: int, entries: Sequence[LogEntry]) -> None:
        """End the run before a batch is written that has too many bad records."""
        if number <= self._counted:
            return
        flaw = self.around.bad.flaw(self._reads(self._spanned + self._span(number)), entries)
        if flaw is not None:
            self._final = QueryError(flaw, hint=f"nothing of batch {number} is written: the next start repeats it")
            self.around.stop.set()
            raise self._final

    def _span(self, number: int) -> int:
        return 0 if self.around.bad.limit is None else self.around.span(self.stored, number)

    def _reads(self, records: int) -> dict[str, int]:
        return dict.fromkeys(self.pipeline.query_ids, records)

    def check_share(self) -> None:
        """Fail the query if too many of all records that it has read are bad."""
        flaw = self.around.bad.flaw(self._reads(self.progress.rows_in)) if self.progress.rows_in else None
        if flaw is not None and self.failure is None:
            self.fail(QueryError(flaw))

    @property
    def _name(self) -> str:
        """The consumer group of the query."""
        return f"{self.around.application}-{self.id}"

    @property
    def _sinks(self) -> dict[str, int]:
        return {sink.topic: window_bytes(sink.window) for sink in self.pipeline.sinks}

    def _was_stopped(self) -> bool:
        error = self.execution.exception()
        return error is None or (self.around.stop.is_set() and _StoppedError.__name__ in str(error))

    def _error(self, text: str) -> EngineError:
        """The error that Spark says in a text."""
        away = re.findall(r"kestrel_sql\.errors\.RegistryUnavailableError: (.+)", text)
        if away:
            return RegistryUnavailableError(f"{self.id}: {away[-1]}")
        refused = re.findall(r"org\.apache\.kafka\.common\.config\.ConfigException: (.+)", text)
        if refused:
            return KafkaConfigError(refused[-1])
        return error_of_text(uri_of(self.folder), text) or QueryError(f"{self.id}: {reason_of(text)}")


def running_query(
    unit: Unit | Prepared,
    around: Surroundings,
    folder: CheckpointFolder,
    progress: QueryProgress,
    resumed: Mapping[PageId, int],
) -> RunningQuery:
    """Return a query to start, which tells of its batches; if it reads by time, it lets others tell of theirs."""
    stored, checkpoint = unit.stored, folder.folder_of(unit.stored)
    if stored.reading == Reading.MERGED:
        watch(around.batches, stored.sources)
    batches = WrittenBatches(
        folder=around.batches,
        query=stored.id,
        topics=frozenset(sink.topic for sink in unit.pipeline.sinks),
        offsets=BrokerOffsets(around.config),
        is_interrupted=unfinished_batch(checkpoint) is not None,
    )
    return RunningQuery(
        stored=stored,
        pipeline=unit.pipeline,
        around=around,
        folder=checkpoint,
        progress=progress,
        resumed=resumed,
        batches=batches,
    )


def _slots(spark: SparkSession) -> int:
    """The number of writers. Inside a batch Spark gives the number from the checkpoint, even on another machine."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def reason_of(text: str) -> str:
    """Return the message of an error of Spark.

    That of an error of ours, else of a Python exception (unless it only tells of one in Java), else of the innermost
    cause.
    """
    own = re.findall(r"(?:kestrel_sql\.errors\.\w+|QueryError): (.+)", text)
    if own:
        return str(own[-1])
    python = re.findall(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)", text)
    if python and not python[-1].startswith(f"{Py4JJavaError.__module__}.{Py4JJavaError.__name__}"):
        return str(python[-1])
    causes = re.findall(r"Caused by: (?:[\w.$]+: )?(.+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return str(causes[-1] if causes else lines[0] if lines else "unknown error")
