"""An engine over the topics of a Kafka broker as a `Backend`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from threading import Event
from uuid import uuid4

import msgspec
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition
from pyspark.sql import SparkSession

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.print_topic import format_lines, print_line, printed_source
from kestrel_sql.admin.view import EngineView
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import EngineError, StatementError
from kestrel_sql.importer.command_backup import TERMINATE_CLUSTER
from kestrel_sql.kafka.client.consume import READER, partition_counts, to_record
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.connector.warm_up import rehearse
from kestrel_sql.kafka.run.adoption import Adoption
from kestrel_sql.kafka.run.broker_session import open_for_brokers
from kestrel_sql.kafka.run.declared_topics import Topics
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.kafka.run.topic_contents import BrokerTopics
from kestrel_sql.plan.codec.plan_file import decode_statement, encode_statement
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.key_lookup import key_lookup
from kestrel_sql.queries.transient import TransientQuery
from kestrel_sql.server.broker.command_topic import Command, CommandTopic, check_adoption
from kestrel_sql.server.broker.producing import RowProducer
from kestrel_sql.server.broker.pull_queries import BrokerAsking
from kestrel_sql.server.broker.push_queries import BrokerPushes, Place
from kestrel_sql.server.broker.queries import BrokerQueries
from kestrel_sql.server.broker.tables import TopicTable
from kestrel_sql.server.commands import TERMINATE_ID, command_id, replayed, terminated_sinks
from kestrel_sql.server.errors import ApiError
from kestrel_sql.server.properties import altered_system
from kestrel_sql.server.sandbox import trial_session
from kestrel_sql.server.serving.backend import Backend, Done, Written
from kestrel_sql.server.serving.lookups import LookUp
from kestrel_sql.server.serving.statements import is_command
from kestrel_sql.session.registered_schemas import register_schemas
from kestrel_sql.session.session import Executed, Session, properties_config
from kestrel_sql.spark.runtime.start import SparkStart
from kestrel_sql.sql.nodes.admin import ControlQuery, PrintTopic
from kestrel_sql.sql.nodes.statements import AlterSystem
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.records import Record

_MOMENT_S = 0.05
_CHUNK, _LOOK_S = 1_000, 0.2


class BrokerEngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a broker, where the checkpoint is, and how many rows may wait for a push client."""

    run: RunSettings
    push_queue_rows: int
    pace: float = 1.0
    """Multiplies the times between two looks at the queries; tests do not want to wait."""
    say: Callable[[str], None]
    adopts: bool = False
    """Whether to take over a command topic that this checkpoint does not know."""
    rebuilds: bool = False
    """Whether queries with state that ksqlDB ran may begin anew, and write their results again."""
    sink_from: Mapping[Position, int] | None = None
    """From where on they write, if not all again; empty for the offsets that ksqlDB committed."""
    removes_members: bool = False
    """Whether the broker is to remove the members that ksqlDB left in the groups of its queries."""
    open_spark: Callable[[RunSettings, Callable[[str], None]], SparkSession] = open_for_brokers
    close_spark: Callable[[SparkSession], None] = SparkSession.stop
    rehearse: Callable[[SparkSession, Event], object] = rehearse
    """What a standby does with its session until the event is set."""


class BrokerBackend(Backend):
    """Statements through a command topic, persistent queries from their checkpoints, rows from and to a broker.

    Whoever makes one holds the lock on the checkpoint, and closes `spark` afterwards.
    """

    idle_s = 0.2

    def __init__(
        self, session: Session, settings: BrokerEngineSettings, folder: CheckpointFolder, spark: SparkStart
    ) -> None:
        """Carry out what the command topic holds; no query runs before `start`.

        Raises:
            EngineError: the broker refuses, or the command topic has a command that cannot be carried out.
        """
        run = settings.run
        self._say = settings.say
        self._config = run.config
        manifest = folder.load().next_run()
        folder.save(manifest)
        self._spark = spark
        self._offsets = BrokerOffsets(run.config)
        self._queries = BrokerQueries(
            settings=run,
            session=session,
            folder=folder,
            offsets=self._offsets,
            spark=self._spark.session,
            manifest=manifest,
            adoption=Adoption(
                run.config,
                session.config["ksql.service.id"],
                settings.say,
                rebuilds=settings.rebuilds,
                sink_from=settings.sink_from,
                removes_members=settings.removes_members,
            ),
            pace=settings.pace,
        )
        self.idle_s = self.idle_s * settings.pace
        place = Place(checkpoint=folder.folder, master=run.master, spark=spark.session)
        errors, asking = self._queries.errors, BrokerAsking(session=session, config=run.config, table_of=self._table)
        self._pushes = BrokerPushes(run.config, session, place, errors.note, settings.push_queue_rows)
        super().__init__(asking, errors, self._queries, self._pushes)
        self._rows: RowProducer | None = None
        self._topic = CommandTopic(run.config, session.config["ksql.service.id"])
        self._topic.open()
        self.cluster_id = self._offsets.cluster_id() or ""
        self._stopped = False
        self._restore(adopts=settings.adopts)
        self.done = self._queries.manifest.done
        # Not before: a broker that refuses must leave no JVM.
        self._spark.begin()

    def note_done(self, effect: str) -> None:
        """Keep in the checkpoint that something is done."""
        self._queries.note_done(effect)
        super().note_done(effect)

    def start(self) -> None:
        """Wait for Spark, and start the queries."""
        self._spark.session()
        self._queries.follow()

    def stop(self) -> None:
        """Watch nothing any more."""
        self._stopped = True

    def close(self) -> None:
        """Stop the queries between two batches, and disconnect."""
        self._queries.close()
        if self._rows is not None:
            self._rows.close()
        self._topic.close()
        self.asking.close()

    def step(self) -> bool:
        """See what the queries did."""
        if not self._stopped:
            self._queries.watch()
            self._pushes.watch()
        return False

    def view(self) -> EngineView:
        """What statements look at that ask about the engine."""
        return EngineView(
            session=self.session,
            base=self.base,
            broker=BrokerTopics(self._config, self._offsets),
            paused=frozenset(self._queries.paused),
            failed=self._queries.failures(),
            starting=self._queries.starting(),
            offsets=self._queries.read_to,
            counts={name: (each[0], each[1]) for name, each in self._queries.progress().items()},
            wait=partial(time.sleep, _MOMENT_S),
        )

    def look_up(self, planned: TransientQuery) -> LookUp | None:
        """Return what answers a query by key from the copy of its table; None if it is another, or needs Spark."""
        source = self.session.catalog.sources.get(planned.source)
        table = None if source is None or source.ingestion is not None else self._table(source)
        if source is None or table is None:
            return None
        found = key_lookup(planned, table, self.asking.log)
        if found is None:
            return None

        def answer(constant: object) -> Answer | None:
            if self._queries.table(source) is not table.topic or not table.topic.ready.is_set():
                return None
            try:
                return found.answer(constant)
            finally:
                self.errors.note(self.asking.take_log())

        return answer

    async def print_lines(self, statement: PrintTopic) -> AsyncIterator[Sequence[str]]:
        """Give the lines of the topic's records: from now or FROM BEGINNING, every n-th of INTERVAL, up to LIMIT."""
        view, topic = self.view(), statement.topic
        source = printed_source(statement, view)
        start = OFFSET_BEGINNING if statement.from_beginning else OFFSET_END
        count = await asyncio.to_thread(lambda: partition_counts(self._config, [topic]).get(topic, 0))
        consumer = Consumer({**self._config.client(), **READER})
        try:
            consumer.assign([TopicPartition(topic, number, start) for number in range(count)])
            yield format_lines(source)
            left, interval, seen = statement.limit, max(1, statement.interval or 1), 0
            while left is None or left > 0:
                messages = await asyncio.to_thread(consumer.consume, _CHUNK, _LOOK_S)
                records = [to_record(message) for message in messages if message.error() is None]
                shown = records[-seen % interval :: interval][:left]
                seen += len(records)
                if shown:
                    left = None if left is None else left - len(shown)
                    yield [print_line(record, source, view) for record in shown]
        finally:
            await asyncio.to_thread(consumer.close)

    def command(
        self, parsed: ParsedStatement, planned: Executed | None, config: Config, variables: dict[str, str]
    ) -> Done:
        """Write a statement into the command topic once it is known to run, and carry it out.

        Raises:
            EngineError: it is refused, or the command topic does not take it; nothing has changed.
        """
        statement = parsed.statement
        if not is_command(statement):
            raise StatementError("the statement changes nothing", span=parsed.span)
        with ExitStack() as undo:
            trial = trial_session(self.session, config, variables)
            done = self._checked(parsed, planned, trial, undo)
            if done is not None and done.plan is None:
                return Done(executed=done, sequence=self.sequence)
            if done is not None and done.deletes is not None:
                self._delete(done.deletes, trial, undo)
            key = command_id(statement, dict(trial.catalog.sources), str(uuid4()))
            offset = self._written(key, parsed, done, config)
            undo.pop_all()
        if isinstance(statement, ControlQuery | AlterSystem):
            self._control(offset, statement)
        elif done is not None and done.plan is not None:
            self._carry_out(offset, done.plan, config)
        self._queries.follow()
        return Done(executed=done, sequence=offset)

    def produce(self, records: Sequence[Record]) -> Future[Written]:
        """Hand records to the broker; the result comes with its acknowledgements."""
        if self._rows is None:
            self._rows = RowProducer(self._config)
        return self._rows.write(records)

    def terminate(self, topics: Sequence[str]) -> int:
        """Write TERMINATE CLUSTER into the command topic, and carry it out.

        Raises:
            EngineError: the command was not written, or a topic was not deleted: then the next start does it again.
        """
        settings = {"deleteTopicList": list(topics)}, dict(self.base.overrides)
        offset = self._topic.write(TERMINATE_ID, TERMINATE_CLUSTER, settings, None)
        self._end_service(topics)
        return offset

    def _table(self, source: Source) -> TopicTable | None:
        topic = self._queries.table(source)
        if topic is None:
            return None
        session = self.session
        settings = self._queries.settings_of(source)
        return TopicTable(topic=topic, functions=session.functions, settings=settings, serde=session.serde())

    def _written(self, key: str, parsed: ParsedStatement, done: Executed | None, config: Config) -> int:
        """Write a statement into the command topic, and return its offset."""
        plan = encode_statement(done.plan) if done is not None and done.plan is not None else None
        text = parsed.text.rstrip().removesuffix(";") + ";"
        return self._topic.write(key, text, (config.beyond(self.base), dict(self.base.overrides)), plan)

    def _checked(
        self, parsed: ParsedStatement, planned: Executed | None, trial: Session, undo: ExitStack
    ) -> Executed | None:
        """Execute a plan on a copy of the session, and check that its query could be started.

        Its topic and its schemas are there then; `undo` takes them back. Statements that have no plan give None.
        """
        statement = parsed.statement
        if isinstance(statement, AlterSystem):
            altered_system(self.config, statement)
            return None
        if isinstance(statement, ControlQuery):
            if statement.query_id is not None and statement.query_id not in self.session.queries:
                raise StatementError(f"Unknown queryId: {statement.query_id}", span=statement.span)
            return None
        if planned is None:
            return None
        done = trial.commit(planned)
        topics = Topics(self._config)
        created = topics.declare(done, trial)
        if created is not None:
            undo.callback(topics.undo, created)
        if done.plan is None:
            return done
        undo.callback(self.session.retract, register_schemas(self.session.registry, done.plan))
        query = done.plan.query_plan
        if query is not None and query.sink is not None:
            self._queries.check(trial.queries[query.query_id], trial)
        return done

    def _restore(self, *, adopts: bool) -> None:
        """Carry out what the command topic holds, if it is of this checkpoint or is to be adopted."""
        mark = f"command topic {self._topic.topic}"
        commands, manifest = list(self._topic.read()), self._queries.manifest
        if commands and mark not in manifest.done:
            if not adopts:
                raise EngineError(
                    f"the command topic {self._topic.topic} has {len(commands)} commands, and the checkpoint knows"
                    " none",
                    hint="name the checkpoint that belongs to it, or another --service-id, or take it over by --adopt",
                )
            check_adoption(commands, self.session.functions)
        for command in commands:
            if command.record.ends_service:
                self._say(f"{self._topic.topic} holds TERMINATE CLUSTER: it is carried out, and the next start is new")
                self._end_service(command.record.deleted_topics)
                return
            self._replay(command)
        if mark not in manifest.done:
            self._queries.note_done(mark, tuple(self.session.queries) if commands else ())
        self._queries.open_tables()

    def _end_service(self, topics: Sequence[str]) -> None:
        """End all queries, and delete sink topics and, at last, the command topic."""
        self.is_terminated = True
        session = self.session
        sinks = terminated_sinks(session.catalog.sources.values(), topics, session.config)
        session.queries.clear()
        self._queries.follow()
        for sink in sinks:
            self._drop(sink)
        Topics(self._config).delete(self._topic.topic)

    def _delete(self, source: Source, trial: Session, undo: ExitStack) -> None:
        """Delete the topic of a source before the command is written, as ksqlDB does: the source outlives a failure.

        The query that writes the topic stops before, or it could make the topic anew.
        """
        writes = [name for name in self.session.queries if name not in {*trial.queries, *self._queries.paused}]
        self._queries.pause(writes)
        undo.callback(self._queries.resume, writes)
        self._drop(source)

    def _drop(self, source: Source) -> None:
        """Delete the topic of a source, and its schemas."""
        Topics(self._config).delete(source.topic)
        self.session.partitions.pop(source.topic, None)
        self.session.delete_schemas(source)

    def _replay(self, command: Command) -> None:
        record = command.record
        config = properties_config({**record.configured, **record.properties})
        known, plan = self.session.catalog.sources, None
        try:
            if record.plan is not None:
                plan = decode_statement(record.plan)
                register_schemas(self.session.registry, plan)
                self._carry_out(command.offset, plan, config)
                # Its text may be of another release.
                with suppress(EngineError):
                    (parsed,) = self.session.parse(record.statement)
                    self.statuses[record.key] = replayed(parsed, plan, known)
                return
            for parsed in self.session.parse(record.statement):
                if not isinstance(parsed.statement, ControlQuery | AlterSystem):
                    raise StatementError("a command without a plan was written by a release that is too old")
                self._control(command.offset, parsed.statement)
                self.statuses[record.key] = replayed(parsed, None, known)
        except ApiError as error:
            self._say(f"offset {command.offset} of {self._topic.topic} has no effect here: {error.message}")
        except EngineError as error:
            raise EngineError(
                f"offset {command.offset} of the command topic {self._topic.topic} cannot be carried out: "
                f"{error.message}\n{record.statement}",
                hint=error.hint,
            ) from error

    def _carry_out(self, offset: int, plan: StatementPlan, config: Config) -> None:
        """Let the session follow a plan that the command topic holds."""
        session = self.session
        session.execute_plan(plan, config)
        session.counter = offset + 1
        self.sequence = offset

    def _control(self, offset: int, control: ControlQuery | AlterSystem) -> None:
        """Carry out a statement that the command topic holds without a plan."""
        self.sequence = offset
        if isinstance(control, AlterSystem):
            self.config = altered_system(self.config, control)
            return
        queries = self.session.queries
        names = list(queries) if control.query_id is None else [control.query_id]
        known = [name for name in names if name in queries]
        match control.verb:
            case "PAUSE":
                self._queries.pause(known)
            case "RESUME":
                self._queries.resume(known)
            case _:
                for name in known:
                    del queries[name]
