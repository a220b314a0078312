"""Runs an application: connects to the broker, locks the checkpoint, executes the statements, and runs the queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

from confluent_kafka import Producer
from msgspec.structs import replace
from pyspark.sql import SparkSession

from kestrel_sql.admin.answer import Answer, message_answer
from kestrel_sql.admin.answers import answer_of
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import EngineError, QueryError, StatementError
from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.run.adoption import Adoption
from kestrel_sql.kafka.run.broker_session import open_for_brokers
from kestrel_sql.kafka.run.declared_topics import Topics
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.run.opening import checkpoint_errors, open_checkpoint
from kestrel_sql.kafka.run.processing_log import LogWriter
from kestrel_sql.kafka.run.progress import QueryState
from kestrel_sql.kafka.run.run import ProductionRun, RunSettings, StoreUri, connect, until_registry
from kestrel_sql.kafka.run.script import Script
from kestrel_sql.kafka.run.topic_contents import BrokerTopics, print_topic
from kestrel_sql.kafka.sink.transaction import EARLIEST
from kestrel_sql.queries.bad_records import BadRecords, count_of
from kestrel_sql.session.insert_values import Constants, insert_record
from kestrel_sql.session.session import Session
from kestrel_sql.spark.runtime.setting_errors import setting_errors
from kestrel_sql.spark.runtime.start import SparkStart
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.sql.nodes.statements import (
    CreateAs,
    DefineVariable,
    InsertInto,
    InsertValues,
    SourceKind,
    UndefineVariable,
)
from kestrel_sql.sql.parse.parser import ParsedStatement, placed_text
from kestrel_sql.topics.records import Record

_LOOK_S = 0.2
_QUERIES = (CreateAs, InsertInto)
_RUN_BY_SPARK = (*_QUERIES, InsertValues)


@dataclass(slots=True, kw_only=True)
class Application:
    """An application to run.

    `say` shows messages to the user, `show` the state of queries, `answer` the answers of statements.

    `report` shows what the run does next.

    `adoption` takes over the queries that ksqlDB ran, at the first start.

    `text` is the text that is parsed or executed, to which the positions of errors belong.

    `open_spark` opens the session when a statement first needs it, and `close_spark` closes it at the end.
    """

    settings: RunSettings
    session: Session
    log_topic: str | None
    say: Callable[[str], None]
    report: Callable[[str], None] = lambda _: None
    show: Callable[[Sequence[QueryState]], None]
    answer: Callable[[Answer], None]
    stop: Event = field(default_factory=Event)
    adoption: Adoption | None = None
    open_spark: Callable[[RunSettings, Callable[[str], None]], SparkSession] = open_for_brokers
    close_spark: Callable[[SparkSession], None] = SparkSession.stop
    bad: BadRecords = field(init=False)
    text: str | None = field(init=False, default=None)
    _spark: SparkStart = field(init=False)
    _written: dict[str, ParsedStatement] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Begin without Spark."""
        self.bad = BadRecords(self.say, limit=self.settings.max_bad)
        self._spark = SparkStart(lambda: self.open_spark(self.settings, self.say))

    def run(self, *texts: str) -> bool:
        """Run the texts of a script in order, and return whether all queries ended without an error.

        Raises:
            EngineError: the broker does not answer, a statement is refused, or the application does not match its
                checkpoint.
        """
        settings = self.settings
        parsed = [*self._parsed(texts)]
        statements = [statement for _, statement in parsed]
        self.settings = settings = replace(settings, passes_blobs=passes_blobs(statements))
        with self._locked() as folder, setting_errors(settings.spark):
            self.report(f"connecting to {settings.config.servers}")
            offsets = self._connected()
            if offsets is None:
                return True
            self.report(f"connected; {count_of(len(statements), 'statement')} to carry out")
            view = EngineView(
                session=self.session, broker=BrokerTopics(settings.config, offsets), wait=lambda: time.sleep(_LOOK_S)
            )
            topics = Topics(settings.config, folder.load().queries)
            script = Script(
                session=self.session,
                folder=folder,
                manifest=folder.load().next_run(),
                define=lambda parsed: self._define(parsed, topics),
                ask=lambda parsed: answer_of(parsed, view),
                follow=lambda parsed: self._print(parsed, view),
                insert=lambda parsed: self._insert(parsed),
            )
            if any(isinstance(each.statement, _RUN_BY_SPARK) for each in statements):
                self._spark.begin()
            self._execute(parsed, script)
            if self.stop.is_set():
                return True
            if self.log_topic is not None:
                topics.make(self.log_topic)
            self.report("planned, and topics are there; waiting for Spark")
            with closing(LogWriter(settings.config, self.log_topic, self.say)) as log:
                queries = self._queries(statements, log)
                try:
                    return queries.run(folder, script.manifest, offsets)
                except EngineError:
                    if queries.refused is not None:
                        self.text = placed_text(queries.refused.text, queries.refused.span)
                    raise

    @contextmanager
    def _locked(self) -> Iterator[CheckpointFolder]:
        """Hold the checkpoint and, as long, Spark, through which a store is reached."""
        checkpoint = self.settings.checkpoint
        with ExitStack() as stack:
            if isinstance(checkpoint, StoreUri):
                stack.callback(self._spark.close, self.close_spark)
                self.report(f"waiting for Spark, which reaches {checkpoint.text}")
            stack.enter_context(checkpoint_errors(checkpoint))
            folder = open_checkpoint(checkpoint, self._spark.session)
            stack.enter_context(folder.locked(self.say, self.stop))
            if not isinstance(checkpoint, StoreUri):
                stack.callback(self._spark.close, self.close_spark)
            yield folder

    def _parsed(self, texts: Iterable[str]) -> Iterator[tuple[str, ParsedStatement]]:
        known = replace(self.session, variables=dict(self.session.variables))
        for text in texts:
            self.text = text
            for statement in known.parse(text):
                if isinstance(statement.statement, DefineVariable | UndefineVariable):
                    known.execute(statement)
                yield text, statement

    def _connected(self) -> BrokerOffsets | None:
        """Wait for the broker; None if the user stopped the run."""
        settings = self.settings
        try:
            return connect(settings.config, self.say, settings.patience, self.stop)
        except EngineError:
            if self.stop.is_set():
                return None
            raise

    def _execute(self, parsed: Iterable[tuple[str, ParsedStatement]], script: Script) -> None:
        for self.text, statement in parsed:
            if self.stop.is_set():
                return
            answers = until_registry(partial(script.execute, statement), self.settings.patience, self.say, self.stop)
            for answer in answers:
                self.answer(answer)

    def _queries(self, statements: Sequence[ParsedStatement], log: LogWriter) -> ProductionRun:
        return ProductionRun(
            settings=self.settings,
            session=self.session,
            statements=statements,
            written=self._written,
            open_spark=self._spark.session,
            say=self.say,
            report=self.report,
            show=self.show,
            bad=self.bad,
            log=log.write,
            stop=self.stop,
            adoption=self.adoption,
        )

    def _define(self, parsed: ParsedStatement, topics: Topics) -> Answer | None:
        done = self.session.execute(parsed)
        if done.plan is not None and done.plan.query_plan is not None:
            self._written[done.plan.query_plan.query_id] = parsed
        try:
            topics.declare(done, self.session)
        except BaseException:
            self.session.retract(done.registered)
            raise
        if done.deletes is not None:
            topics.delete(done.deletes.topic)
            self.session.delete_schemas(done.deletes)
        return message_answer(done.message) if done.message else None

    def _insert(self, parsed: ParsedStatement) -> Answer | None:
        done = self.session.execute(parsed)
        if done.insert is None:
            raise StatementError("nothing to insert", span=parsed.span)
        constants = Constants(self.session.functions, self.session.config)
        record = insert_record(done.insert, constants, self.session.serde(), lambda: int(time.time() * 1000))
        produce(self.settings.config, record)
        return None

    def _print(self, parsed: ParsedStatement, view: EngineView) -> Iterable[Answer]:
        statement = parsed.statement
        return (
            print_topic(statement, view, self.settings.config, self.stop.is_set)
            if isinstance(statement, PrintTopic)
            else ()
        )


def passes_blobs(statements: Iterable[ParsedStatement]) -> bool:
    """Whether there are queries, and each is a join or keeps no state: Python reads and writes all their records."""
    queries = [each.statement for each in statements if isinstance(each.statement, _QUERIES)]
    return bool(queries) and all(each.query.joins or _keeps_no_state(each) for each in queries)


def _keeps_no_state(statement: CreateAs | InsertInto) -> bool:
    is_table = isinstance(statement, CreateAs) and statement.kind is SourceKind.TABLE
    return not (is_table or statement.query.group_by or statement.query.partition_by)


def produce(config: KafkaConfig, record: Record) -> None:
    """Write a record, and wait until the broker has it.

    Raises:
        QueryError: the broker refuses the record or does not answer.
    """
    failures: list[Any] = []
    client = {
        **config.client(partitioner="murmur2_random", enable_idempotence=True, message_timeout_ms=30_000),
        "log_level": 0,
    }
    with closing(Producer(client)) as producer:
        producer.produce(
            record.topic,
            key=record.key,
            value=record.value,
            # librdkafka reads the timestamp 0 as "now" (ADR 16).
            timestamp=record.timestamp or EARLIEST,
            headers=list(record.headers),
            on_delivery=lambda error, _: failures.append(error) if error is not None else None,
        )
        waiting = producer.flush(40)
    if failures:
        raise broker_error(f"the record for the topic {record.topic} was not written: {failures[0].str()}", failures[0])
    if waiting:
        raise QueryError(f"the record for the topic {record.topic} was not written: the broker does not answer")
