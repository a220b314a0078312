"""The command topic: every statement that changes the engine, in ksqlDB's own format (rest-api.md, section 16)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from kestrel_sql.errors import AccessError, EngineError, PlanError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.importer.command_backup import CommandRecord, read_backup
from kestrel_sql.importer.entries import Outcome
from kestrel_sql.importer.report import Report, commands_report
from kestrel_sql.kafka.client.acls import needed
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import READER, until_ends
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.client.topic_configs import TIMEOUT, awaited_shape, shapes_of
from kestrel_sql.plan.codec.json_text import read_json, write_line
from kestrel_sql.topics.records import Record

_log = logging.getLogger(__name__)

VERSION = 18
"""The version of ksqlDB's commands that is written, and the highest that is read."""

_FIELDS = frozenset({"statement", "streamsProperties", "overwriteProperties", "originalProperties", "plan", "version"})
_FOREVER = {"cleanup.policy": "delete", "retention.ms": "-1", "unclean.leader.election.enable": "false"}

_Settings = tuple[Mapping[str, object], Mapping[str, object]]
"""The properties of a request, and those of the server."""


class Command(msgspec.Struct, frozen=True):
    """A command and its offset, which is its sequence number."""

    offset: int
    record: CommandRecord


def topic_name(service_id: str) -> str:
    """The name of a service's command topic."""
    return f"_confluent-ksql-{service_id}_command_topic"


class CommandTopic:
    """Reads and writes the command topic of one service. Who opens it last is the only one that can write."""

    def __init__(self, config: KafkaConfig, service_id: str) -> None:
        """Connect to nothing."""
        self._config = config
        self._id = service_id
        self.topic = topic_name(service_id)
        self._producer: Producer | None = None

    def open(self) -> None:
        """Make the topic if it is missing, and fence whoever wrote before.

        Raises:
            EngineError: the broker refuses, or the topic has several partitions.
        """
        shape = shapes_of(self._config, [self.topic]).get(self.topic)
        if shape is None:
            self._create()
        elif shape.partitions != 1:
            raise EngineError(f"the command topic {self.topic} has {shape.partitions} partitions, and must have 1")
        client = self._config.client(transactional_id=self._id, acks="all", enable_idempotence=True)
        self._producer = Producer({**client, "log_level": 0})
        try:
            self._producer.init_transactions(TIMEOUT)
        except KafkaException as error:
            raise self._failed("is not to be written", error) from error

    def close(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def read(self) -> Iterator[Command]:
        """Give all committed commands in order.

        Raises:
            EngineError: a record is no command that this release understands, or the broker refuses.
        """
        ends = BrokerOffsets(self._config).written([(self.topic, 0)])
        try:
            with closing(Consumer({**self._config.client(), **READER})) as consumer:
                consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
                for records in until_ends(consumer, ends):
                    for record in records:
                        yield from self._command(record)
        except KafkaException as error:
            raise self._failed("is not to be read", error) from error

    def write(self, key: str, statement: str, settings: _Settings, plan: object) -> int:
        """Write a command in a transaction, and return its offset.

        Raises:
            EngineError: it was not written.
        """
        if self._producer is None:
            raise EngineError(f"the command topic {self.topic} is not open", hint="restart the server, and see its log")
        properties, configured = settings
        value = {
            "statement": statement,
            "streamsProperties": dict(properties),
            "originalProperties": dict(configured),
            "plan": plan,
            "version": VERSION,
        }
        offsets: list[int] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(message.offset() or 0)

        text = write_line(value)
        try:
            with self._transaction(self._producer) as producer:
                producer.produce(self.topic, key=write_line(key), value=text, partition=0, on_delivery=note)
        except KafkaException as error:
            raise self._failed("did not take the statement", error) from error
        if not offsets:
            raise EngineError(f"the command topic {self.topic} did not take the statement")
        return offsets[0]

    @contextmanager
    def _transaction(self, producer: Producer) -> Iterator[Producer]:
        """Begin a transaction, and commit it if the block ends; whatever is raised aborts it."""
        producer.begin_transaction()
        try:
            yield producer
            producer.commit_transaction(TIMEOUT)
        except BaseException:
            try:
                producer.abort_transaction(TIMEOUT)
            except KafkaException as error:
                # Whether it was committed is not known: a next statement could stand on one that this server lacks.
                self.close()
                _log.error("the command topic %s is written no more: %s", self.topic, error.args[0].str())
            raise

    def _create(self) -> None:
        asked = admin_client(self._config).create_topics(
            [NewTopic(self.topic, num_partitions=1, replication_factor=-1, config=dict(_FOREVER))]
        )
        try:
            asked[self.topic].result(TIMEOUT)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._failed("was not created", error) from error
        awaited_shape(self._config, self.topic)

    def _command(self, record: Record) -> Iterator[Command]:
        if record.value is None:
            return
        where = f"offset {record.offset} of the command topic {self.topic}"
        hint = "run the release that wrote it"
        try:
            value = read_json(record.value.decode())
            key = (record.key or b'""').decode()
        except (ValueError, PlanError) as error:
            raise EngineError(f"{where} is not a command: it is not JSON", hint=hint) from error
        strange = sorted(set(value) - _FIELDS) if isinstance(value, dict) else []
        if strange or (isinstance(value, dict) and (value.get("version") or 0) > VERSION):
            what = f"has the unknown field {strange[0]}" if strange else f"is of version {value['version']}"
            raise EngineError(f"{where} {what}", hint=hint)
        found = next(read_backup(f"{key}:{write_line(value)}"), None)
        if found is None or found.problem is not None:
            raise EngineError(f"{where} is not a command: {found.problem if found else 'it is empty'}", hint=hint)
        yield Command(record.offset, found)

    def _failed(self, what: str, error: KafkaException) -> EngineError:
        reason, needs = error.args[0], needed(error.args[0])
        message = f"the command topic {self.topic} {what}: {reason.str()}"
        # ksqlDB tells of a statement that was not written as of one that failed, unless the broker refuses access.
        return EngineError(message) if needs is None else AccessError(message, hint=needs)


def check_adoption(commands: Sequence[Command], functions: Registry) -> None:
    """Plan every command of a topic.

    Raises:
        EngineError: some cannot run; lists all of them.
    """
    report = commands_report([command.record for command in commands], functions)
    refused = tuple(entry for entry in report.statements if entry.outcome is Outcome.REFUSED)
    if refused:
        raise EngineError(
            f"{len(refused)} of {len(commands)} commands cannot run here:\n{Report(refused)}",
            hint="change or drop these statements in ksqlDB first",
        )
