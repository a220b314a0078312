"""`kestrel run` against a broker.

Runs every persistent query from its checkpoint until it is stopped or has caught up.
"""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TypeVar

import msgspec
from msgspec.structs import replace
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError, QueryError, RegistryUnavailableError, StatementError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.run.adoption import Adoption, StillRunsError
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest, StoredQuery
from kestrel_sql.kafka.run.prepare_query import Preparation, Prepared
from kestrel_sql.kafka.run.progress import QueryProgress, QueryState, summary
from kestrel_sql.kafka.run.resume import NamedQuery, gone, named_queries, order
from kestrel_sql.kafka.run.running_query import RunningQuery, Surroundings, running_query
from kestrel_sql.kafka.run.shared_source import can_share, parted, shared, units, write_shared
from kestrel_sql.kafka.run.supervisor import AWAY_S, Absences, Supervisor
from kestrel_sql.kafka.run.taken_state import Place
from kestrel_sql.kafka.run.topic_changes import changed, changes
from kestrel_sql.kafka.sink.sink import Delivery
from kestrel_sql.queries.bad_records import BadLimit, BadRecords
from kestrel_sql.queries.log_context import about
from kestrel_sql.session.session import Session
from kestrel_sql.spark.checkpoint.batch_log import offsets_of
from kestrel_sql.spark.state.checkpoint_path import remove_folder
from kestrel_sql.spark.state.row_counts import PageId
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.records import LogEntry

_LOOK_S = 0.2
_COLLECT_S = 30.0
_ANSWER_S = 5.0

T = TypeVar("T")


BATCH_RECORDS = 200_000
"""About how many records a query takes at once: a batch has a fixed cost, and half as many took a third more time."""


class StoreUri(msgspec.Struct, frozen=True):
    """The URI of a checkpoint on a store, such as `s3a://bucket/app`."""

    text: str


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run.

    `patience` (s) is how long to wait for a broker that does not answer; `grace` (s) is how long a stopped run may
    finish its batches, None without end. `share_sources` lets new queries share a source where they can. `passes_blobs`
    says that no code of Java takes the records of the queries one by one.
    """

    config: KafkaConfig
    checkpoint: Path | StoreUri
    until_caught_up: bool = False
    delivery: Delivery = Delivery.EXACTLY_ONCE
    batch_records: int = BATCH_RECORDS
    share_sources: bool = False
    passes_blobs: bool = False
    master: str = "local[*]"
    spark: Mapping[str, str] = {}
    patience: float = 60.0
    grace: float | None = None
    max_bad: BadLimit | None = None
    rebuilds: bool = False
    """Whether queries that have changed so that they cannot resume begin anew."""
    prunes: bool = False
    """Whether queries that the script does not have lose their state."""

    @property
    def slots(self) -> int | None:
        """The number of Spark's partitions of state in new checkpoints; None if only a cluster knows it."""
        given = self.spark.get("spark.sql.shuffle.partitions", "")
        cores = re.fullmatch(r"local(\[(?P<number>\d+|\*).*)?", self.master)
        if given.isdecimal() or cores is None:
            return int(given) if given.isdecimal() else None
        number = cores["number"] or "1"
        return os.cpu_count() if number == "*" else int(number)


@dataclass(slots=True, kw_only=True)
class ProductionRun:
    """One start of an application; `say` shows messages to the user, `show` the state of all queries.

    `written` has the statement of each query; that of the one that could not start is `refused`.
    """

    settings: RunSettings
    session: Session
    statements: Sequence[ParsedStatement]
    written: Mapping[str, ParsedStatement] = field(default_factory=dict)
    open_spark: Callable[[], SparkSession]
    say: Callable[[str], None]
    report: Callable[[str], None] = lambda _: None
    show: Callable[[Sequence[QueryState]], None]
    bad: BadRecords
    log: Callable[[Sequence[LogEntry]], None] = lambda _: None
    stop: Event = field(default_factory=Event)
    adoption: Adoption | None = None
    """Where new queries of an empty checkpoint begin that ksqlDB ran before."""
    refused: ParsedStatement | None = None
    _running: dict[str, RunningQuery] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _asked: float = 0.0
    _collected: float = field(default_factory=time.monotonic)
    _absences: Absences = field(init=False)
    _supervisor: Supervisor = field(init=False)
    _stop_since: float | None = None
    _cut: set[str] = field(default_factory=set)
    _batches: TemporaryDirectory[str] = field(default_factory=lambda: TemporaryDirectory(prefix="kestrel-batches-"))

    def __post_init__(self) -> None:
        """Begin with everything there."""
        self._absences = Absences(self.say, self.settings.patience)

    def run(self, folder: CheckpointFolder, manifest: Manifest, offsets: BrokerOffsets) -> bool:
        """Run all queries from the checkpoint, whose lock is held, and return whether all ended without an error.

        Raises:
            EngineError: nothing was started, because the application does not match the checkpoint or the broker.
        """
        self._supervisor = Supervisor(
            session=self.session,
            folder=folder,
            offsets=offsets,
            broker=self._broker,
            say=self.say,
            absences=self._absences,
            until_caught_up=self.settings.until_caught_up,
        )
        prepared = self._prepare(folder, manifest, offsets)
        manifest, removed = self._parted(manifest, prepared, folder)
        rows: dict[str, Mapping[PageId, int]] = {}
        for query in prepared:
            if not query.stored.shared:
                with self._about(query.named):
                    rows[query.stored.id] = query.check(folder, self.open_spark)
            manifest = manifest.with_query(query.stored)
        folder.save(manifest)
        for stored in removed:
            if not stored.shared:
                remove_folder(folder.folder_of(stored))
        started = [*units(prepared)]
        for unit in started:
            if unit.stored.shared:
                write_shared(unit, folder)
        if not prepared:
            self.say("no statement of the script writes to a topic, so there is nothing to run")
            return True
        around = self._surroundings(self.open_spark(), manifest, offsets)
        queries = [
            running_query(
                unit, around, folder, QueryProgress(unit.stored.id, unit.stored.start), rows.get(unit.stored.id, {})
            )
            for unit in started
        ]
        self._running = {query.id: query for query in queries}
        what = "reading what the topics hold" if self.settings.until_caught_up else "running until Ctrl-C"
        self.report(f"{what}: {', '.join(unit.title for unit in started)}")
        if self.settings.until_caught_up:
            return self._catch_up(queries, offsets)
        return self._run_until_stopped(queries, offsets)

    def _parted(
        self, manifest: Manifest, prepared: Sequence[Prepared], folder: CheckpointFolder
    ) -> tuple[Manifest, list[StoredQuery]]:
        """Let queries that do not run leave those that share their checkpoint; those to remove are given, too."""
        removed = [query.replaces for query in prepared if query.replaces is not None]
        for stored in gone(manifest, [query.named for query in prepared]):
            self.say(f"{stored.id} is in the checkpoint but not in the script, so it does not run")
            manifest = manifest.with_query(parted(stored, folder))
            if self.settings.prunes:
                removed.append(manifest.queries[stored.name])
                manifest = manifest.without_query(stored.name)
        return manifest, removed

    def _prepare(self, folder: CheckpointFolder, manifest: Manifest, offsets: BrokerOffsets) -> list[Prepared]:
        prepared = []
        preparation, queries = self.preparation(folder, manifest, offsets)
        for named in queries:
            stored = manifest.queries.get(named.name)
            with self._about(named):
                if stored is None:
                    found = preparation.new(named)
                    if self.adoption is not None and not manifest.queries:
                        found = self._adopted(self.adoption, found, folder, offsets)
                    prepared.append(found)
                    continue
                try:
                    prepared.append(self._known(preparation, named, stored))
                except StatementError:
                    if not self.settings.rebuilds:
                        raise
                    prepared.append(preparation.anew(named, stored, manifest.runs))
        return shared(prepared, manifest.runs) if self.settings.share_sources else prepared

    def _adopted(
        self, adoption: Adoption, query: Prepared, folder: CheckpointFolder, offsets: BrokerOffsets
    ) -> Prepared:
        """Wait until ksqlDB runs a query no longer, and let it go on from there."""
        place = Place(folder=folder.folder_of(query.stored), spark=self.open_spark, serde=self.session.serde())
        (sink,) = query.pipeline.sinks
        told = False
        while True:
            try:
                return adoption.begun(query, offsets, sink.topic, place)
            except StillRunsError as error:
                if not told:
                    self.say(str(error))
                told = True
            if self.stop.wait(AWAY_S):
                raise EngineError(f"{query.stored.id} was not taken over: the run was stopped")

    def preparation(
        self, folder: CheckpointFolder, manifest: Manifest, offsets: BrokerOffsets
    ) -> tuple[Preparation, list[NamedQuery]]:
        """Return what prepares the queries, and the queries in their order."""
        queries = order(named_queries(self.session.queries, self.session.catalog, self.statements))
        preparation = Preparation(
            session=self.session,
            folder=folder,
            offsets=offsets,
            from_start=self.settings.until_caught_up,
            fresh_topics=self._fresh_topics(manifest, queries),
            slots=self.settings.slots,
        )
        return preparation, queries

    @contextmanager
    def _about(self, named: NamedQuery) -> Iterator[None]:
        """Let an error name the query and the place of its statement."""
        try:
            yield
        except EngineError as error:
            self.refused = self.written.get(named.query.id)
            error.span = error.span or (self.refused.span if self.refused is not None else None)
            if named.query.id not in error.message:
                error.message = f"{named.query.id}: {error.message}"
            raise

    def _known(self, preparation: Preparation, named: NamedQuery, stored: StoredQuery) -> Prepared:
        """Prepare a query of the checkpoint; one that can or shall no longer share a source leaves the others."""
        found = preparation.known(named, stored)
        if self.settings.share_sources and can_share(found):
            return found
        return replace(found, stored=parted(found.stored, preparation.folder))

    def _fresh_topics(self, manifest: Manifest, queries: Sequence[NamedQuery]) -> set[str]:
        sources = self.session.catalog.sources
        sinks = {
            named.name: sources[sink].topic
            for named in queries
            if (sink := named.query.plan.sink) in sources and sink is not None
        }
        old = {topic for name, topic in sinks.items() if name in manifest.queries}
        return set(sinks.values()) - old

    def _surroundings(self, spark: SparkSession, manifest: Manifest, offsets: BrokerOffsets) -> Surroundings:
        return Surroundings(
            spark=spark,
            config=self.settings.config,
            application=manifest.application,
            run=manifest.runs,
            delivery=self.settings.delivery,
            batch_records=self.settings.batch_records,
            batches=Path(self._batches.name),
            log=self.log,
            bad=self.bad,
            stop=self.stop,
            flaw=lambda stored: changed(stored, offsets),
            span=self._span,
        )

    def _span(self, stored: StoredQuery, batch: int) -> int:
        folder = self._supervisor.folder.folder_of(stored)
        ends, starts = offsets_of(folder, batch), offsets_of(folder, batch - 1) or stored.start
        return sum(max(0, end - starts.get(position, 0)) for position, end in ends.items())

    def _catch_up(self, queries: Sequence[RunningQuery], offsets: BrokerOffsets) -> bool:
        """Run one query after the other, each until it has read all records of its topics."""
        for query in queries:
            if not self._start(query):
                break
            while self._lives(query):
                self._look(offsets)
                self._watch(offsets)
                if self.stop.is_set():
                    self._stopped([query])
            self._look(offsets, last=True)
            if query.failure is not None or self.stop.is_set():
                break
            # The next query can only read up to the first open transaction.
            offsets.settle({sink.topic for sink in query.pipeline.sinks})
        return self._ended_well(queries)

    def _run_until_stopped(self, queries: Sequence[RunningQuery], offsets: BrokerOffsets) -> bool:
        """Run all queries, sources of others first, until the user stops them or all have failed."""
        for query in queries:
            self._start(query)
        while not self.stop.is_set():
            self._look(offsets)
            self._watch(offsets)
            alive = [self._lives(query) for query in queries]
            if not any(alive):
                break
        while not all(self._stopped(queries)):
            time.sleep(_LOOK_S / 4)
        self._look(offsets, last=True)
        return self._ended_well(queries)

    def _stopped(self, queries: Sequence[RunningQuery]) -> list[bool]:
        """Stop queries between two batches, or within one when the grace is over; say of each whether it has ended."""
        self.stop.set()
        now, grace = time.monotonic(), self.settings.grace
        self._stop_since = self._stop_since or now
        overdue = grace is not None and now - self._stop_since > grace
        started = [query for query in queries if query.execution is not None]
        for query in started:
            if overdue and query.is_active and query.id not in self._cut:
                self._cut.add(query.id)
                with about(query=query.id, batch=query.progress.batch):
                    self.say(f"{query.id} did not finish its batch in {grace:.0f} s; the next start repeats it")
        return [query.stop_if_idle(at_once=overdue) for query in started]

    def _start(self, query: RunningQuery) -> bool:
        if self.stop.is_set():
            return False
        query.start(until_caught_up=self.settings.until_caught_up)
        return True

    def _look(self, offsets: BrokerOffsets, *, last: bool = False) -> None:
        """Wait a moment, update the progress of the queries, and show it."""
        if not last:
            self.stop.wait(_LOOK_S)
        started = [query for query in self._running.values() if query.execution is not None]
        for query in started:
            query.look()
        moment = time.monotonic()
        if last or moment - self._asked > AWAY_S:
            self._asked = moment
            self._measure(started, offsets)
        if moment - self._collected > _COLLECT_S:
            # An object of Java and its methods refer to each other in Python, which looks at old objects very seldom:
            # until then the JVM keeps the plans of finished batches.
            self._collected = moment
            gc.collect()
            if not gc.get_freeze_count():
                # Modules and plans outlive the run: to look at them each time stopped all queries for 0.1 s.
                gc.freeze()
        self.show([query.progress.state() for query in started])

    def _measure(self, queries: Sequence[RunningQuery], offsets: BrokerOffsets) -> None:
        """Compute the lags; if the broker does not answer, tell the user once."""
        positions = {position for query in queries for position in query.progress.offsets}
        try:
            ends = offsets.ends(positions, _ANSWER_S)
        except QueryError as error:
            # A deleted topic has no offsets either; `_watch` reports that, and waiting does not help.
            if offsets.problem() is None:
                self._absences.over(self._broker)
            else:
                self._absences.note(self._broker, error.message)
            return
        self._absences.over(self._broker)
        for query in queries:
            query.progress.measure_lag(ends)

    @property
    def _broker(self) -> str:
        return f"the broker {self.settings.config.servers}"

    def _watch(self, offsets: BrokerOffsets) -> None:
        """Stop queries whose topics have changed, and give up if the broker has not answered for too long."""
        self._absences.check()
        if self._absences:
            return
        active = [query for query in self._running.values() if query.is_active]
        try:
            found = offsets.topics({name for query in active for name in query.stored.sources}, _ANSWER_S)
        except QueryError:
            return
        for query in active:
            flaw = next(changes(query.stored, found), None)
            if flaw is not None:
                query.fail(QueryError(flaw))

    def _lives(self, query: RunningQuery) -> bool:
        """Whether a query runs, or is to run again after an error that may pass."""
        if query.is_active:
            return True
        if not query.was_begun or self.stop.is_set():
            return False
        query.look()
        if self._supervisor.tend(query):
            return True
        self._tell(query)
        return False

    def _ended_well(self, queries: Sequence[RunningQuery]) -> bool:
        for query in queries:
            query.judge(is_last=True)
            query.check_share()
            self._tell(query)
        for sentence in summary([query.progress.state() for query in queries if query.execution is not None]):
            self.say(sentence)
        return not self._told

    def _tell(self, query: RunningQuery) -> None:
        """Tell the user once why a query has failed, if it has."""
        if query.failure is not None and query.id not in self._told:
            self._told.add(query.id)
            with about(query=query.id, batch=query.progress.batch):
                self.say(f"{query.id} failed: {query.failure.render()}")


def until_registry(ask: Callable[[], T], patience: float, say: Callable[[str], None], stop: Event) -> T:
    """Do what asks the schema registry, again and again until it answers.

    Raises:
        RegistryUnavailableError: it did not answer within `patience` seconds, or the user stopped the run.
    """
    since, told = time.monotonic(), False
    while True:
        try:
            return ask()
        except RegistryUnavailableError as error:
            if time.monotonic() - since > patience or stop.is_set():
                raise
            if not told:
                say(f"{error.message}; waiting for it up to {patience:.0f} s")
            told = True
        stop.wait(AWAY_S)


def connect(config: KafkaConfig, say: Callable[[str], None], patience: float, stop: Event) -> BrokerOffsets:
    """Wait until a broker answers.

    Raises:
        EngineError: the broker did not answer within `patience` seconds, or refuses access.
    """
    offsets = BrokerOffsets(config)
    since = time.monotonic()
    while True:
        problem = offsets.problem()
        if problem is None:
            return offsets
        if not problem.is_final and time.monotonic() - since <= patience:
            say(f"{problem.message}; trying again")
            if not stop.wait(AWAY_S):
                continue
        raise EngineError(problem.message, hint=problem.hint)
