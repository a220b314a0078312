"""The persistent queries of a server over a broker.

Started, stopped and watched one by one, by the machinery of `kestrel run`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from msgspec.structs import replace
from pyspark.sql import SparkSession

from kestrel_sql.admin.view import Failure, PartitionOffsets
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.dataflow.aggregate_operators import retention_of
from kestrel_sql.errors import CheckpointError, EngineError, QueryError, StatementError
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.client.positions import Offsets
from kestrel_sql.kafka.run.adoption import Adoption, StillRunsError
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest, StoredQuery
from kestrel_sql.kafka.run.prepare_query import Preparation, Prepared
from kestrel_sql.kafka.run.progress import QueryProgress
from kestrel_sql.kafka.run.resume import NamedQuery
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.kafka.run.running_query import RunningQuery, Surroundings, running_query
from kestrel_sql.kafka.run.supervisor import Absences, Supervisor
from kestrel_sql.kafka.run.taken_state import Place
from kestrel_sql.kafka.run.topic_changes import changed
from kestrel_sql.server.broker.tables import TableTopic, save_ends, saved_ends
from kestrel_sql.server.serving.error_log import ErrorLog
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.spark.checkpoint.batch_log import unfinished_batch
from kestrel_sql.spark.state.checkpoint_path import remove_folder
from kestrel_sql.spark.state.row_counts import PageId
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.topics.records import LogEntry

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""Seconds between two looks at the reports of Spark, which are long."""
_MEASURE_S = 2.0
_ANSWER_S = 5.0
_STOP_S = 60.0


@dataclass(slots=True, kw_only=True)
class Supervised:
    """A query of the session; `running` is None where it does not run, and `error` says why if it should."""

    query: PersistentQuery
    progress: QueryProgress
    """What it has read; before it runs, what its checkpoint says."""
    stop: Event = field(default_factory=Event)
    running: RunningQuery | None = None
    table: TableTopic | None = None
    error: str = ""
    retry_at: float | None = None
    waits_for: str = ""
    """Why it does not run yet, though it starts by itself."""
    has_waited: bool = False
    replaces: bool = False
    """Whether it goes on with the state of another query, which had its name before."""
    is_error_of_user: bool = False
    failed_at: int = 0
    """When it failed (ms)."""

    @property
    def message(self) -> str:
        """What has stopped it; empty while nothing has."""
        return self.error or self.progress.error

    @property
    def lag(self) -> int:
        """The records that it has still to read."""
        return sum((self.progress.lag or {}).values())

    @property
    def is_starting(self) -> bool:
        """Whether it has records to read, and has not read any since this process started."""
        if self.query.plan.sink is None or self.message:
            return False
        return self.running is None or (self.progress.batch < 0 and self.lag > 0)


@dataclass(slots=True, kw_only=True)
class BrokerQueries:
    """Follows the queries of a session. One thread calls everything but `tables`, `progress` and `lags`."""

    settings: RunSettings
    session: Session
    folder: CheckpointFolder
    offsets: BrokerOffsets
    spark: Callable[[], SparkSession]
    manifest: Manifest
    pace: float = 1.0
    """Multiplies the times between two looks at the queries."""
    paused: set[str] = field(default_factory=set)
    adoption: Adoption
    """Where queries begin that another engine ran before, those of `manifest.adopting`."""
    errors: ErrorLog = field(init=False)
    _supervisor: Supervisor = field(init=False)
    _supervised: dict[str, Supervised] = field(default_factory=dict)
    _asked: float = 0.0
    _measured: float = 0.0
    """When the lag of all queries was asked for that the broker told last."""
    _looked: float = 0.0
    _batches: TemporaryDirectory[str] = field(default_factory=lambda: TemporaryDirectory(prefix="kestrel-batches-"))

    def __post_init__(self) -> None:
        """Begin without entries in the processing log."""
        self.errors = ErrorLog(self.session)
        self._supervisor = Supervisor(
            session=self.session,
            folder=self.folder,
            offsets=self.offsets,
            broker="the broker",
            say=_log.warning,
            absences=Absences(_log.warning),
        )

    def check(self, query: PersistentQuery, session: Session) -> None:
        """Check that a query could be started.

        Raises:
            EngineError: a topic is missing, a join does not fit, or the broker refuses.
        """
        self._preparation(session).new(NamedQuery(name=query.id, query=query, replaces=False))

    def open_tables(self) -> None:
        """Copy the tables of all queries, so that they can be asked before Spark runs."""
        self._measure([self._open(query) for query in self.session.queries.values()])

    def follow(self) -> None:
        """Start the session's new queries, and stop those that it no longer has."""
        queries = self.session.queries
        for name in [*self.manifest.queries, *self.manifest.adopting, *self._supervised]:
            if name not in queries:
                self._forget(name)
        for name, query in [*queries.items()]:
            known = self._supervised.get(name)
            if known is not None and known.query is query:
                if known.running is None and not known.error:
                    self._start(known)
                continue
            if known is not None:
                self._stop(known)
            self._start(self._open(query, replaces=known is not None))

    def note_done(self, effect: str, adopting: Sequence[str] = ()) -> None:
        """Note in the manifest what must not be done again, and the queries that are to be taken over."""
        self.manifest = replace(self.manifest.with_done(effect), adopting=(*self.manifest.adopting, *adopting))
        self.folder.save(self.manifest)

    def pause(self, names: Sequence[str]) -> None:
        """Stop queries until they are resumed."""
        self.paused.update(names)
        for name in names:
            if (known := self._supervised.get(name)) is not None:
                self._stop(known, keep_table=True)

    def resume(self, names: Sequence[str]) -> None:
        """Let paused queries go on from where they were, and start those again that have failed."""
        self.paused.difference_update(names)
        for name in names:
            known = self._supervised.get(name)
            if known is None:
                continue
            known.error = ""
            if known.running is None:
                self._start(known)
                continue
            known.stop.clear()
            known.running.attempts = 0
            if known.running.failure is None:
                known.running.start(until_caught_up=False)
            else:
                self._supervisor.start_again(known.running)

    def close(self) -> None:
        """Stop all queries between two batches."""
        for known in self._supervised.values():
            known.stop.set()
        for known in self._supervised.values():
            self._stop(known)
        self.errors.close()

    def watch(self) -> None:
        """Take in what the queries did, and start those again that something ended which may pass."""
        if time.monotonic() - self._looked < _LOOK_S * self.pace:
            return
        self._looked = time.monotonic()
        for known in self._supervised.values():
            if known.running is None and known.retry_at is not None and time.monotonic() > known.retry_at:
                self._start(known)
            if known.running is not None and known.running.was_begun and not known.stop.is_set():
                known.running.look()
                self._supervisor.tend(known.running)
        self.failures()
        if time.monotonic() - self._asked > _MEASURE_S * self.pace:
            self._asked = time.monotonic()
            self._measure_all()

    def table(self, source: Source) -> TableTopic | None:
        """The copy of a table that pull queries ask; None where no query keeps it."""
        for known in [*self._supervised.values()]:
            if known.table is not None and known.table.source.name == source.name:
                return known.table
        return None

    def settings_of(self, source: Source) -> Mapping[str, str]:
        """The settings of the query that writes a table."""
        query = self.session.queries.get(source.created_by or "")
        return self.session.config if query is None else query.config

    def progress(self) -> Mapping[str, tuple[int, int, int, str]]:
        """Rows in, rows out, lag in records and error of every query."""
        found = {}
        for name, known in [*self._supervised.items()]:
            error = known.error or known.waits_for or known.progress.error
            found[name] = known.progress.rows_in, known.progress.rows_out, known.lag, error
        return found

    def batches(self) -> Mapping[str, tuple[int, int]]:
        """The last batch of every query that has completed one since this process started, and its rows of state."""
        progress = {name: known.progress for name, known in [*self._supervised.items()]}
        return {name: (each.batch, each.state_rows) for name, each in progress.items() if each.batch >= 0}

    def failures(self) -> Mapping[str, Failure]:
        """What has stopped each query that failed."""
        found = {}
        for name, known in [*self._supervised.items()]:
            if known.message:
                known.failed_at = known.failed_at or int(time.time() * 1000)
                is_of_user = known.is_error_of_user or (known.running is not None and known.running.is_error_of_user)
                found[name] = Failure(message=known.message, time=known.failed_at, is_of_user=is_of_user)
            else:
                known.failed_at = 0
        return found

    def starting(self) -> frozenset[str]:
        """The queries that have records to read, and have not read any."""
        return frozenset(name for name, known in [*self._supervised.items()] if known.is_starting)

    def read_to(self, name: str) -> Sequence[PartitionOffsets]:
        """How far a query has read each partition of its sources; nothing if the broker does not answer."""
        known = self._supervised.get(name)
        committed = {} if known is None else dict(known.progress.offsets)
        try:
            starts, ends = self.offsets.first(committed), self.offsets.ends(committed, _ANSWER_S)
        except QueryError:
            return ()
        return [
            PartitionOffsets(topic=topic, partition=number, start=starts.get(place, 0), end=ends[place], committed=at)
            for place, at in sorted(committed.items())
            for topic, number in [place]
            if place in ends
        ]

    def is_settled(self, since: float) -> bool:
        """Whether queries have processed what was in their topics at a time (monotonic, s), and tables show it."""
        for name, known in [*self._supervised.items()]:
            if name in self.paused or known.message:
                continue
            if known.is_starting or known.lag or (known.table is not None and not known.table.is_current):
                return False
        return self._measured > since

    def lags(self) -> Mapping[str, Mapping[str, int]]:
        """The records that every query had still to process when the broker was asked last, by topic."""
        return {name: dict(known.progress.lag or {}) for name, known in [*self._supervised.items()]}

    def _preparation(self, session: Session) -> Preparation:
        return Preparation(
            session=session,
            folder=self.folder,
            offsets=self.offsets,
            from_start=False,
            fresh_topics=frozenset(),
            slots=self.settings.slots,
        )

    def _open(self, query: PersistentQuery, *, replaces: bool = False) -> Supervised:
        """Copy the table that a query writes, or that it only stands for."""
        known = Supervised(query=query, progress=QueryProgress(query.id), replaces=replaces)
        self._supervised[query.id] = known
        stored = self.manifest.queries.get(query.id)
        if stored is not None:
            # Where the log is damaged, the start says so.
            with suppress(CheckpointError):
                known.progress.offsets.update(self.folder.next_offsets(stored) or stored.start)
        sources = self.session.catalog.sources
        source = sources.get(query.plan.sources[0] if query.plan.sink is None else query.plan.sink)
        if source is None or source.kind is not SourceKind.TABLE or source.ingestion is not None:
            return known
        try:
            topic = self.offsets.topics([source.topic]).get(source.topic)
            if topic is None:
                raise QueryError(f"the topic {source.topic} of the table {source.name} does not exist")
            has_query = query.plan.sink is not None
            table = known.table = TableTopic(
                self.settings.config,
                source,
                topic.partitions,
                is_written_by_query=has_query,
                retention_ms=retention_of(query.plan.physical_plan),
            )
            ends = self._last_ends(stored, table) if has_query else None
            if ends is not None:
                table.commit(ends)
        except EngineError as error:
            self._refuse(known, error)
        return known

    def _start(self, known: Supervised) -> None:
        if known.error or known.query.plan.sink is None:
            return
        known.retry_at, known.waits_for = None, ""
        try:
            self._run(known, *self._prepared(known.query, replaces=known.replaces))
        except StillRunsError as error:
            self._wait(known, error)
        except EngineError as error:
            self._refuse(known, error)
        except OSError as error:
            # The command topic holds the query, so that it is to run once the store of the checkpoint answers.
            known.retry_at = time.monotonic() + _MEASURE_S
            _log.warning("%s does not run yet: %s", known.query.id, error.strerror or error)
        except Exception:  # noqa: BLE001 - the command topic holds the query: it is in ERROR, and the others run
            _log.exception("%s does not run", known.query.id)
            known.error = f"{known.query.id} was not started; the log of the server says why"

    def _wait(self, known: Supervised, error: StillRunsError) -> None:
        known.retry_at, known.waits_for = time.monotonic() + _MEASURE_S, str(error)
        if not known.has_waited:
            known.has_waited = True
            self.adoption.say(known.waits_for)

    def _refuse(self, known: Supervised, error: EngineError) -> None:
        known.error, known.is_error_of_user = error.message, isinstance(error, StatementError)
        _log.warning("%s does not run: %s", known.query.id, error.render())

    def _prepared(self, query: PersistentQuery, *, replaces: bool) -> tuple[Prepared, Mapping[PageId, int]]:
        """Prepare a query, and count the rows in each page of the state of its checkpoint."""
        preparation, stored = self._preparation(self.session), self.manifest.queries.get(query.id)
        named = NamedQuery(name=query.id, query=query, replaces=replaces)
        prepared = preparation.new(named) if stored is None else preparation.known(named, stored)
        if stored is None and query.id in self.manifest.adopting:
            sink = self.session.catalog.sources.get(query.plan.sink or "")
            place = Place(folder=self.folder.folder_of(prepared.stored), spark=self.spark, serde=self.session.serde())
            prepared = self.adoption.begun(prepared, self.offsets, None if sink is None else sink.topic, place)
        rows = prepared.check(self.folder, self.spark)
        self.manifest = self.manifest.with_query(prepared.stored)
        self.folder.save(self.manifest)
        return prepared, rows

    def _run(self, known: Supervised, prepared: Prepared, rows: Mapping[PageId, int]) -> None:
        around = Surroundings(
            spark=self.spark(),
            config=self.settings.config,
            application=self.manifest.application,
            run=self.manifest.runs,
            delivery=self.settings.delivery,
            batch_records=self.settings.batch_records,
            batches=Path(self._batches.name),
            log=lambda entries: self._batch_is_done(known, entries),
            bad=self.errors.bad,
            stop=known.stop,
            flaw=lambda stored: changed(stored, self.offsets),
        )
        known.running = running_query(prepared, around, self.folder, known.progress, rows)
        known.progress.offsets.update(self.folder.next_offsets(prepared.stored) or prepared.stored.start)
        self._measure([known])
        if known.query.id in self.paused:
            known.stop.set()
        else:
            known.running.start(until_caught_up=False)

    def _batch_is_done(self, known: Supervised, entries: Sequence[LogEntry]) -> None:
        """The sink has committed a batch: in a thread of the query, before its next batch begins."""
        self.errors.show(entries)
        if known.table is not None and known.running is not None:
            ends = self._ends(known.table)
            known.table.commit(ends)
            save_ends(self.folder.folder_of(known.running.stored), ends)

    def _ends(self, table: TableTopic) -> Offsets:
        """The ends of a batch that the broker has committed, but may not have marked yet in every partition."""
        return self.offsets.written([(table.source.topic, number) for number in range(table.partitions)])

    def _last_ends(self, stored: StoredQuery | None, table: TableTopic) -> Offsets | None:
        """The ends of the last batch; a later one may be in the topic in part if the process before ended within it."""
        folder = None if stored is None else self.folder.folder_of(stored)
        return self._ends(table) if folder is None or unfinished_batch(folder) is None else saved_ends(folder)

    def _stop(self, known: Supervised, *, keep_table: bool = False) -> None:
        known.stop.set()
        known.retry_at = None
        self._supervisor.forget(known.query.id)
        if known.running is not None and known.running.execution is not None:
            deadline = time.monotonic() + _STOP_S
            while not known.running.stop_if_idle() and time.monotonic() < deadline:
                time.sleep(0.02)
            known.running.execution.stop()
        if known.running is not None:
            known.running.close()
        if known.table is not None and not keep_table:
            known.table.close()
            known.table = None

    def _forget(self, name: str) -> None:
        """Stop a query for good, and remove its checkpoint."""
        known = self._supervised.pop(name, None)
        if known is not None:
            self._stop(known)
        self.paused.discard(name)
        forgotten = self.manifest.queries.get(name)
        self.manifest = self.manifest.without_query(name)
        try:
            self.folder.save(self.manifest)
            if forgotten is not None:
                remove_folder(self.folder.folder_of(forgotten))
        except OSError as error:
            # A manifest that still has the query does no harm: the next start forgets it again.
            _log.warning("the checkpoint of %s is not removed: %s", name, error.strerror or error)

    def _measure_all(self) -> None:
        """Measure the lag of all queries; the topics of one that has failed may be gone."""
        begun, queries = time.monotonic(), [*self._supervised.values()]
        if self._measure([known for known in queries if not known.message]):
            self._measured = begun
            for known in queries:
                if known.message:
                    self._measure([known])

    def _measure(self, queries: Sequence[Supervised]) -> bool:
        """Measure the lag of queries; whether the broker answered for all of their partitions."""
        positions = {position for known in queries for position in known.progress.offsets}
        try:
            ends = self.offsets.ends(positions, _ANSWER_S)
        except QueryError:
            return False
        for known in queries:
            known.progress.measure_lag(ends)
        return positions <= ends.keys()
