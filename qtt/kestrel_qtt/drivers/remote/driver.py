"""Runs cases on a server that is running: each under names of its own, several at a time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from itertools import count, groupby
from threading import Event, Lock
from typing import TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.case_records import actual_records, input_records
from kestrel_qtt.drivers.declared_topics import expected_topics, topic_of
from kestrel_qtt.drivers.driver import DriverError, RunOptions
from kestrel_qtt.drivers.full import FullDriver
from kestrel_qtt.drivers.job import crashed
from kestrel_qtt.drivers.kafka.partitions import given_records, in_expected_order
from kestrel_qtt.drivers.kafka.scratch_topics import ScratchTopics
from kestrel_qtt.drivers.records.prepare import prepare
from kestrel_qtt.drivers.records.process_topics import ProcessTopics
from kestrel_qtt.drivers.records.run import CaseRun
from kestrel_qtt.drivers.remote.names import OwnNames
from kestrel_qtt.drivers.remote.service import DiedError, Service
from kestrel_qtt.drivers.topics import register_topics
from kestrel_sql.cli.remote import RemoteServer
from kestrel_sql.errors import EngineError, SqlSyntaxError
from kestrel_sql.formats.registry.memory import SchemaRegistry
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.aggregates import StreamWindowedAggregateV1
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import (
    SESSION_STATEMENTS,
    CreateAs,
    Emit,
    InsertValues,
    SetProperty,
    SourceKind,
    UnsetProperty,
)
from kestrel_sql.topics.records import Record

_T = TypeVar("_T")
_SCHEMAS = re.compile(r"\b(?:AVRO|PROTOBUF|JSON_SR)\b", re.IGNORECASE)
_TIMES = re.compile(r"HOPPING|ROWTIME|WINDOWSTART|WINDOWEND|\bTIMESTAMP\W?\s*=", re.IGNORECASE)
_MANY_DAYS_MS = 2520 * 86_400_000
"""A multiple of the sizes that windows have."""

_ANSWER_S = 10.0
EVERY_CHANGE: Mapping[str, object] = {"cache.max.bytes.buffering": 0}
"""Lets a table write each change, and not only the last of several, as a server does by default."""
_AT_ONCE: Mapping[str, object] = {"ksql.streams.__emit.interval.ms.kstreams.windowed.aggregation__": 0}
"""Lets EMIT FINAL write a window when it closes, and not with a record a second later."""


class RemoteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A server and its broker; without a registry cases with schemas cannot run. `cached` keeps the server's cache."""

    url: str
    servers: str
    registry: SchemaRegistry | None = None
    at_once: int = 4
    cached: bool = False


class RemoteDriver(FullDriver):
    """Runs cases of records on a server of ksqlDB or of Kestrel, and leaves nothing of them there."""

    def __init__(self, settings: RemoteSettings) -> None:
        """Connect.

        Raises:
            DriverError: the server or the broker does not answer.
        """
        super().__init__(ProcessTopics())
        self._settings = settings
        self._server = RemoteServer(settings.url)
        self._stop, self._commands = Event(), Lock()
        self._prefix, self._numbers = f"QTT{uuid4().hex[:8].upper()}", count()
        try:
            self._server.version()
            self._scratch = ScratchTopics(KafkaConfig.of(settings.servers), 0)
        except EngineError as error:
            raise DriverError(error.render()) from error
        self._offsets, self._admin = BrokerOffsets(self._scratch.config), admin_client(self._scratch.config)

    def run(
        self, cases: Sequence[model.Case], options: RunOptions
    ) -> Iterator[tuple[model.Case, model.Outcome, float]]:
        """Run the cases, several at a time; each is yielded once with its outcome and its seconds."""
        pool = ThreadPoolExecutor(self._settings.at_once, "case")
        try:
            running = [pool.submit(self._timed, case) for case in cases]
            for each in as_completed(running):
                yield each.result()
        finally:
            # After Ctrl-C, too, what runs drops what it has made.
            self._stop.set()
            pool.shutdown(cancel_futures=True)
            self._stop.clear()

    def carrier_of(self, case: model.Case) -> str:
        """Where the queries of a case run."""
        return self._settings.url

    def close(self) -> None:
        """Drop what could not be dropped before, and topics that clients who looked for them made again; then leave."""
        prefix = self._prefix.lower()
        with suppress(EngineError):
            self._service().sweep(self._prefix)
        with suppress(EngineError):
            self._scratch.remove([name for name in self._topics_of_broker() if prefix in name.lower()])
        self._scratch.close()
        super().close()

    def _timed(self, case: model.Case) -> tuple[model.Case, model.Outcome, float]:
        started = time.perf_counter()
        try:
            outcome = self._run(case)
        except SqlSyntaxError as error:
            outcome = model.Rejected(message=str(error), error_code=error.code)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a bug on one case must not end the run
            outcome = crashed(error)
        return case, outcome, time.perf_counter() - started

    def _run(self, case: model.Case) -> model.Outcome:
        names = OwnNames(f"{self._prefix}_{next(self._numbers)}_")
        run = prepare(names.case(case))
        if isinstance(run.outcome, model.Crashed):
            return run.outcome
        service = self._service()
        made = self._topics_of(run)
        try:
            own = _kept_for(run.case)
            ours = {topic: partitions for topic, partitions in made.items() if topic not in own}
            self._scratch.make(ours)
            self._scratch.await_known(ours)
            self._scratch.know(made)
            refused = self._statements(run, service)
            if refused is not None:
                return replace(refused, message=names.given(refused.message))
            if run.outcome is not None:
                return model.Produced(records={})
            later = _later(run)
            self._feed(run, service, later)
            return self._produced(run, names, made, later)
        except DiedError as error:
            return model.Failed(str(error))
        finally:
            service.clear()
            self._scratch.remove(made)
            if self._settings.registry is not None:
                for topic in made:
                    for side in ("key", "value"):
                        self._settings.registry.delete(f"{topic}-{side}")

    def _service(self) -> Service:
        return Service(self._server, self._offsets, self._topics_of_broker, self._stop, self._commands)

    def _topics_of_broker(self) -> Iterable[str]:
        return list(self._admin.list_topics(timeout=_ANSWER_S).topics)

    def _topics_of(self, run: CaseRun) -> dict[str, int]:
        """The topics of a case and their partitions: those of its sources and sinks, and those that it feeds."""
        expected = expected_topics(run.case)
        known = (source.topic for source in run.session.catalog.sources.values())
        planned = {topic: run.partitions.count(topic) for topic in known}
        return {**expected, **planned}

    def _statements(self, run: CaseRun, service: Service) -> model.Rejected | None:
        """Send the statements; INSERT VALUES become inputs, for a server has no clock that stands still."""
        session = Session()
        # With EMIT FINAL a cache hides no change, and holds windows that close after they have expired (rule O9.4).
        is_final = any(map(_closes_windows, _steps(run.session)))
        base = _AT_ONCE if is_final else {} if self._settings.cached else EVERY_CHANGE
        own = {name: value for name, value in run.case.properties.items() if name != "use.exact.numeric.comparison"}
        given: dict[str, object] = {"auto.offset.reset": "earliest", **base, **own}
        registry = self._settings.registry
        if registry is not None:
            register_topics(replace(run.session, registry=registry), run.case)
        statements = session.parse("\n".join(run.case.statements))
        for index, parsed in enumerate(statements):
            match parsed.statement:
                case SetProperty(name=name, value=value):
                    given[name] = value
                case UnsetProperty(name=name):
                    given.pop(name, None)
                case statement if isinstance(statement, SESSION_STATEMENTS) or (
                    isinstance(statement, InsertValues) and run.outcome is None
                ):
                    continue
                case _:
                    try:
                        service.carry_out(parsed, given)
                    except EngineError as error:
                        is_last = index == len(statements) - 1
                        return model.Rejected(message=error.message, statement_index=index, is_last=is_last)
        if registry is not None:
            run.session.registry = registry
            run.inputs = [record for _, record in input_records(run.session, run.case.inputs, run.partitions)]
        return None

    def _feed(self, run: CaseRun, service: Service, later: int) -> None:
        """Write the inputs, moved in time, each piece when those before it are processed."""
        records = list(given_records(run))
        if any(isinstance(step, FkTableTableJoinV1) or _closes_windows(step) for step in _steps(run.session)):
            # Such a join leaves out a change that is followed by another one before it has been answered, and windows
            # that close within a millisecond come out with a later record.
            pieces = [[record] for record in records]
        elif any(
            sum(map(run.partitions.count, {*run.topics_read(query)})) > 1 for query in run.session.queries.values()
        ):
            # Each partition of each topic is read by a task of its own.
            pieces = [list(piece) for _, piece in groupby(records, lambda record: (record.topic, record.partition))]
        else:
            pieces = [records]
        sent: list[Record] = []
        for piece in pieces:
            for done in self._scratch.send([replace(each, timestamp=each.timestamp + later) for each in piece]):
                if isinstance(done, str):
                    raise DriverError(f"the broker refused an input: {done}")
                sent.append(done)
            service.settle(run.session)
        run.inputs = sent[: len(run.inputs)]

    def _produced(self, run: CaseRun, names: OwnNames, made: Mapping[str, int], later: int) -> model.Outcome:
        """Read what the queries wrote, in the order that the case expects between partitions."""
        sources = run.session.catalog.sources
        sinks = {query.plan.sink for query in run.session.queries.values() if query.plan.sink in sources}
        # What INSERT VALUES writes counts as written.
        topics = {*run.topics, *(sources[sink].topic for sink in sinks if sink is not None)}
        given = {(record.topic, record.partition, record.offset) for record in run.inputs}
        records = {}
        for topic, read in self._scratch.read(topics).items():
            found = [record for record in read if (topic, record.partition, record.offset) not in given]
            if self._settings.cached and any(
                each.kind is SourceKind.TABLE for each in run.session.sources_of_topic(topic)
            ):
                found = last_of_each(found, lambda record: record.key)
            if not found:
                continue
            actual = actual_records(run.session, topic, in_expected_order(run, topic, found, made[topic]))
            records[names.given(topic)] = tuple(_sooner(record, later) for record in actual)
        return model.Produced(records=records)


def _steps(session: Session) -> Iterator[Step]:
    return (step for query in session.queries.values() for step in query.plan.physical_plan.steps())


def _closes_windows(step: Step) -> bool:
    """Whether a step writes a window when it closes."""
    return isinstance(step, StreamWindowedAggregateV1) and step.window_expression.emit is Emit.FINAL


def _kept_for(case: model.Case) -> set[str]:
    """The topics that a server makes itself, because a statement says how long they keep records."""
    return {
        topic_of(statement).name
        for statement in _created(case)
        if "RETENTION_MS" in dict(statement.properties)
        or (statement.query.window is not None and statement.query.window.retention is not None)
    }


def _created(case: model.Case) -> Iterator[CreateAs]:
    """The queries of a case that make their sink."""
    with suppress(EngineError):
        for parsed in Session(variables=dict(case.variables)).parse("\n".join(case.statements)):
            if isinstance(parsed.statement, CreateAs):
                yield parsed.statement


def _later(run: CaseRun) -> int:
    """By how much (ms) a case is moved in time: the clients of brokers have no timestamp 0, which they write as 1.

    A case whose statements see times stays where it is.
    """
    sees_times = any(map(_TIMES.search, run.case.statements)) or any(record.window for record in run.case.inputs)
    return 0 if sees_times or all(record.timestamp for record in given_records(run)) else _MANY_DAYS_MS


def _sooner(record: model.ActualRecord, later: int) -> model.ActualRecord:
    window = record.window
    if window is not None:
        window = replace(window, start=window.start - later, end=window.end - later)
    return replace(record, timestamp=record.timestamp - later, window=window)


def can_run(case: model.Case, *, schemas: bool) -> bool:
    """Whether a server can run a case, and shows what the case compares: records, or that a statement is refused."""
    if not case.has_records or case.plan is not None or case.functions:
        return False
    if (case.outputs is None and case.expected_exception is None) or any(each.offset for each in case.inputs):
        return False
    if any(topic.key_schema_id or topic.value_schema_id for topic in case.topics):
        # The registry of a server gives the ids that it likes.
        return False
    has_schemas = any(topic.key_schema is not None or topic.value_schema is not None for topic in case.topics)
    texts = (*case.statements, *map(str, case.properties.values()))
    return schemas or not (has_schemas or any(map(_SCHEMAS.search, texts)))


def comparable(case: model.Case, *, cached: bool) -> model.Case:
    """A case without what a server does not show; with a cache, all but the last value of each key of a table."""
    outputs = case.outputs
    if cached and outputs is not None:
        tables = {topic_of(statement).name for statement in _created(case) if statement.kind is SourceKind.TABLE}
        outputs = (
            *(record for record in outputs if record.topic not in tables),
            *last_of_each(
                [record for record in outputs if record.topic in tables],
                lambda record: (record.topic, repr(record.key), record.window),
            ),
        )
    return replace(case, outputs=outputs, post=None, log=None, serdes=None)


def last_of_each(records: Sequence[_T], key_of: Callable[[_T], Hashable]) -> list[_T]:
    """The last record of each key, in their order."""
    last = {key_of(record): at for at, record in enumerate(records)}
    return [records[at] for at in sorted(last.values())]
