"""Creates the topics that statements declare, or checks those that exist (rules L6)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from kestrel_sql.errors import EngineError, Span, StatementError
from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.topic_configs import TIMEOUT, awaited_shape, shapes_of
from kestrel_sql.kafka.run.manifest import StoredQuery
from kestrel_sql.kafka.run.topic_changes import START_NEW, deleted
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.internal_topics import check_writable
from kestrel_sql.planner.properties.topic_shape import (
    TopicShape,
    check_shape,
    cleanup_policy,
    given_topic,
    inherited,
    missing_topic,
)
from kestrel_sql.planner.properties.with_clause import TopicProperties, source_properties
from kestrel_sql.session.session import Executed, Session
from kestrel_sql.sql.nodes.statements import CreateAs, CreateSource

_log = logging.getLogger(__name__)

_DEFAULT_REPLICAS = -1

_OF_STATEMENT = frozenset(
    {
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_CONFIG,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
    }
)
"""What a broker refuses because of what a statement asks for."""


class Topics(msgspec.Struct, frozen=True):
    """The topics of a broker, which CREATE and DROP … DELETE TOPIC change."""

    config: KafkaConfig
    known: Mapping[str, StoredQuery] = {}
    """The queries of the checkpoint, by name; each checks the topics of its own sources."""

    def declare(self, done: Executed, session: Session) -> str | None:
        """Create or check the topic of a CREATE statement that was executed.

        The topic of a CREATE without AS must exist unless the statement gives PARTITIONS. The topic of a CREATE AS gets
        the partitions, replicas and retention of the leftmost source, unless the statement gives others. If it exists,
        it must have them. The sink of a query in the checkpoint only needs what its statement gives, because its source
        may have changed.

        Returns:
            The name of the topic if it was created, for `undo` if the statement fails later.

        Raises:
            StatementError: the topic does not exist, or has another configuration.
            QueryError: the broker refuses.
        """
        command = done.plan.ddl_command if done.plan is not None else None
        if not isinstance(command, CreateStreamV1 | CreateTableV1):
            return None
        span = done.statement.span
        match done.statement.statement:
            case CreateSource(properties=properties):
                return self._declare_source(command, source_properties(properties).topic, session.config, span)
            case CreateAs() as statement:
                return self._declare_sink(command, statement, session, span)
            case _:
                return None

    def shapes(self, names: Iterable[str]) -> Mapping[str, TopicShape]:
        """Return the configurations of the topics with these names that exist."""
        return shapes_of(self.config, names)

    def make(self, topic: str) -> None:
        """Create a topic with one partition unless it exists.

        Raises:
            StatementError: it is internal.
            QueryError: the broker refuses.
        """
        check_writable(topic, {})
        if topic not in shapes_of(self.config, [topic]):
            self.create(topic, TopicProperties(partitions=1), None)

    def delete(self, topic: str) -> None:
        """Delete a topic if it exists.

        Raises:
            QueryError: the broker refuses.
        """
        admin = admin_client(self.config)
        try:
            admin.delete_topics([topic], operation_timeout=TIMEOUT)[topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _refused(f"the topic {topic} was not deleted", error, "DELETE") from error

    def undo(self, topic: str) -> None:
        """Delete a topic that a statement created before it failed; the log tells if it stays."""
        try:
            self.delete(topic)
        except EngineError as error:
            _log.warning("the topic %s of a statement that failed is left: %s", topic, error.message)

    def _declare_source(
        self, command: CreateStreamV1 | CreateTableV1, wanted: TopicProperties, settings: Config, span: Span | None
    ) -> str | None:
        name = command.topic_name
        found = self.shapes([name]).get(name)
        if found is None and wanted.partitions is None:
            reader = next((query for query in self.known.values() if name in query.sources), None)
            if reader is not None:
                raise StatementError(deleted(name, reader), span=span, hint=START_NEW)
            raise missing_topic(name, span)
        if found is None:
            check_writable(name, settings, span)
            found = self.create(name, wanted, cleanup_policy(command, is_sink=False))
        if found is None:
            return name
        check_shape(name, found, wanted, span)
        return None

    def _declare_sink(
        self, command: CreateStreamV1 | CreateTableV1, statement: CreateAs, session: Session, span: Span | None
    ) -> str | None:
        given, policy = given_topic(statement), cleanup_policy(command, is_sink=True)
        name, source = command.topic_name, session.catalog.sources[statement.query.source.name].topic
        found = self.shapes([name, source])
        wanted = inherited(given, found.get(source), policy=policy)
        there = found.get(name) or self.create(name, wanted, policy)
        if there is None:
            return name
        kind = "STREAM" if isinstance(command, CreateStreamV1) else "TABLE"
        is_known = f"CREATE {kind} {statement.name}" in self.known
        check_shape(name, there, given if is_known else wanted, span)
        return None

    def create(self, name: str, wanted: TopicProperties, policy: str | None) -> TopicShape | None:
        """Create a topic; if it was created by another client meanwhile, return its configuration."""
        settings = {"cleanup.policy": policy, "retention.ms": wanted.retention_ms}
        topic = NewTopic(
            name,
            num_partitions=wanted.partitions or 1,
            replication_factor=wanted.replicas or _DEFAULT_REPLICAS,
            config={name: str(value) for name, value in settings.items() if value is not None},
        )
        admin = admin_client(self.config)
        try:
            admin.create_topics([topic], operation_timeout=TIMEOUT)[name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _refused(f"the topic {name} was not created", error, "CREATE") from error
            return awaited_shape(self.config, name)
        try:
            awaited_shape(self.config, name)
        except BaseException:
            self.undo(name)
            raise
        return None


def _refused(what: str, error: KafkaException, operation: str) -> EngineError:
    if error.args[0].code() in _OF_STATEMENT:
        return StatementError(f"{what}: {error.args[0].str()}")
    needs = f"the user needs {operation} on the topic, or another user must do this"
    return broker_error(f"{what}: {error.args[0].str()}", error.args[0], needs=needs)
