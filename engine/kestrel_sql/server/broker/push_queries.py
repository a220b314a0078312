"""Push queries over the topics of a broker: each is a streaming query of Spark without a sink."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.dataflow.log_entries import FATAL
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import StatementError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.cluster.cluster import is_cluster
from kestrel_sql.kafka.run.running_query import reason_of
from kestrel_sql.kafka.source.merged_source import SourceSpec
from kestrel_sql.kafka.source.reading import reading_of
from kestrel_sql.kafka.source.source import open_source
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.transient import Row, TransientQuery
from kestrel_sql.server.errors import SERVER_ERROR, ApiError
from kestrel_sql.server.serving.push_clients import PushClients, SharedQuery, Subscriber, from_beginning, shared_key
from kestrel_sql.session.session import Session
from kestrel_sql.spark.in_memory.runner import outputs_of
from kestrel_sql.spark.io.arrow_passes import Batches
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.runtime.callback import BatchCallback
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, StorePath, folder_session, remove_folder, uri_of
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.topics.records import LogEntry

_log = logging.getLogger(__name__)

_BATCH_RECORDS = 10_000
_PIECE = 1_000
"""Rows that a client from the beginning gets at once."""

_MOMENT_S = 0.02

_Begin = Mapping[Position, int]


@dataclass(slots=True, kw_only=True)
class BrokerPush(SharedQuery):
    """A push query that runs; `is_paced` if it reads from the beginning, as fast as its one client takes rows."""

    start: _Begin
    is_paced: bool
    bound: int
    count: Callable[[int, int], None]
    note: Callable[[Sequence[LogEntry]], None]
    pipeline: Pipeline | None = None
    execution: Any = None
    callback: BatchCallback = field(init=False)
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Make what Spark calls."""
        self.callback = BatchCallback(self.collect)

    def collect(self, batch: DataFrame, _number: int) -> None:
        """Give the rows of a batch to the clients."""
        rows = batch.toArrow().to_pylist()
        if not rows or self.pipeline is None:
            return
        (output,) = outputs_of(rows, 1)
        self.note(output.log)
        fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
        if fatal is not None:
            self.fail(ApiError(SERVER_ERROR, fatal.text))
            return
        window = self.pipeline.graph.ends[0].window
        unlimited = replace(self.planned, limit=None)
        whole = unlimited.rows(output.records, window)
        firsts = _first_offsets(rows)
        for subscriber in [*self.subscribers]:
            begin, found = subscriber.begin, whole
            if any(offset < begin.get(position, 0) for position, offset in firsts.items()):
                # A client that came later gets no row of a record that came before it.
                (own,) = outputs_of([row for row in rows if _is_after(row, begin)], 1)
                found = unlimited.rows(own.records, window)
            self._give(subscriber, found)

    def _give(self, subscriber: Subscriber, rows: Sequence[Row]) -> None:
        dropped = 0
        for piece in _pieces(rows, _PIECE if self.is_paced else max(1, len(rows))):
            while self.is_paced and subscriber.waiting * 2 > self.bound and not self.stopped.is_set():
                time.sleep(_MOMENT_S)
            dropped += subscriber.put(piece)
        self.count(len(rows), dropped)

    def stop(self, folder: CheckpointPath) -> None:
        """Stop the query, and remove its checkpoint."""
        self.stopped.set()
        if self.execution is not None:
            self.execution.stop()
        self.callback.close()
        with suppress(OSError):
            remove_folder(folder)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where push queries run, and keep what they need while they run: no later start reads it."""

    checkpoint: CheckpointPath
    master: str
    spark: Callable[[], SparkSession]

    def session(self) -> SparkSession:
        """The session of the queries."""
        return folder_session(self.spark()) if self._is_beside_store else self.spark()

    def folder(self) -> CheckpointPath:
        """An empty folder for their checkpoints, which ends with Spark if it is not in the checkpoint of the server.

        Each batch writes there some times, which takes long on a store; executors of a cluster see no other place.
        """
        if self._is_beside_store:
            context: Any = self.spark().sparkContext
            return Path(tempfile.mkdtemp(dir=context._temp_dir))  # noqa: SLF001 - the folder that Spark's JVM removes
        folder = self.checkpoint / "transient"
        with suppress(OSError):
            remove_folder(folder)
        return folder

    @property
    def _is_beside_store(self) -> bool:
        return isinstance(self.checkpoint, StorePath) and not is_cluster(self.master)


class BrokerPushes(PushClients):
    """The push queries of a server over a broker."""

    def __init__(
        self,
        config: KafkaConfig,
        session: Session,
        place: Place,
        note: Callable[[Sequence[LogEntry]], None],
        queue_rows: int,
    ) -> None:
        """Keep checkpoints as long as queries run; `note` gets entries of the processing log."""
        super().__init__(session, queue_rows)
        self._config = config
        self._session = session
        self._place = place
        self._folder = place.folder()
        self._note = note
        self._offsets = BrokerOffsets(config)
        self._starting = threading.Lock()

    def subscribe(self, subscriber: Subscriber, planned: TransientQuery, config: Config, statement: Query) -> None:
        """Let a client have the rows of the records that come from now on, or of all.

        Raises:
            ApiError: there are too many.
            EngineError: the broker refuses, or a topic is missing.
        """
        is_late = from_beginning(config)
        run = QueryRun(plan=planned.plan, settings=config, serde=self._session.serde())
        pipeline = build_pipeline([run], self._session.functions)
        partitions, start = self._start(pipeline, from_beginning=is_late)
        key = shared_key(planned, config, statement, from_now=not is_late)

        def make() -> BrokerPush:
            return BrokerPush(
                key=key,
                planned=planned,
                config=config,
                text=format_statement(statement),
                start=start,
                is_paced=is_late,
                bound=self._queue_rows,
                count=self._count,
                note=self._note,
            )

        with self._starting:
            shared = self.add(subscriber, key, make, start)
            if isinstance(shared, BrokerPush) and shared.pipeline is None:
                self._run(shared, pipeline, partitions)

    def emptied(self, shared: SharedQuery) -> None:
        """Stop a query beside all else."""
        if isinstance(shared, BrokerPush):
            threading.Thread(target=shared.stop, args=(self._path(shared),), daemon=True).start()

    def watch(self) -> None:
        """End the streams of queries that Spark ended."""
        for shared in [*self._shared.values()]:
            if isinstance(shared, BrokerPush) and shared.execution is not None and not shared.failed:
                if not shared.execution.isActive and not shared.stopped.is_set():
                    shared.fail(ApiError(SERVER_ERROR, reason_of(str(shared.execution.exception()))))

    def _start(self, pipeline: Pipeline, *, from_beginning: bool) -> tuple[dict[str, int], _Begin]:
        sources = sorted(pipeline.graph.sources, key=lambda source: not source.relation.is_table)
        names = list(dict.fromkeys(source.topic for source in sources))
        found = self._offsets.topics(names)
        if missing := [name for name in names if name not in found]:
            raise StatementError(f"the topic {missing[0]} does not exist")
        positions = [position for name in names for position in found[name].positions]
        start = self._offsets.first(positions) if from_beginning else self._offsets.ends(positions)
        return {name: found[name].partitions for name in names}, start

    def _run(self, shared: BrokerPush, pipeline: Pipeline, partitions: Mapping[str, int]) -> None:
        shared.pipeline = pipeline
        spark = self._place.session()
        spec = SourceSpec(config=self._config, partitions=partitions, start=shared.start, limit=_BATCH_RECORDS)
        plan = shared.planned.plan.physical_plan
        reading = reading_of(plan, list(partitions), partitions, len(pipeline.graph.levels))
        pages = pipeline.new_pages(partitions)
        records = open_source(spark, spec, reading)
        if shared.planned.scalable:
            records = records.through(partial(_admitted, has_key=bool(shared.planned.key)))
        frame = pipeline.frame(records, pages, partitions, has_task_pages=True)
        writer = frame.writeStream.foreachBatch(shared.callback).outputMode("update")
        writer = writer.option("checkpointLocation", uri_of(self._path(shared)))
        try:
            shared.execution = writer.start()
            if shared.stopped.is_set():
                # Its client has left meanwhile.
                shared.stop(self._path(shared))
        except Exception as error:  # noqa: BLE001 - the client is told
            shared.fail(ApiError(SERVER_ERROR, reason_of(str(error))))
            _log.exception("a push query did not start")

    def _path(self, shared: BrokerPush) -> CheckpointPath:
        return self._folder / shared.planned.plan.query_id

    def _count(self, rows: int, dropped: int) -> None:
        self.rows += rows
        self.dropped += dropped


def _admitted(batches: Batches, *, has_key: bool) -> Batches:
    """The records that a scalable push query reads (`TransientQuery.admits`)."""
    for batch in batches:
        admitted = pc.is_valid(batch.column("value"))
        yield batch.filter(pc.and_(admitted, pc.is_valid(batch.column("key"))) if has_key else admitted)


def _first_offsets(rows: Sequence[Mapping[str, Any]]) -> dict[Position, int]:
    """The lowest offset of the records that the rows of a batch come from, by position."""
    firsts: dict[Position, int] = {}
    for row in rows:
        position, offset = (row["src_topic"], row["src_part"]), row["src_off"]
        if offset is not None and offset < firsts.get(position, offset + 1):
            firsts[position] = offset
    return firsts


def _is_after(row: Mapping[str, Any], begin: _Begin) -> bool:
    return bool(row["src_off"] >= begin.get((row["src_topic"], row["src_part"]), 0))


def _pieces(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for at in range(0, len(rows), size):
        yield rows[at : at + size]
