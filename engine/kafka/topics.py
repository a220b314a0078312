"""The topics that statements declare: made where they are missing, checked where they exist (`spec/language.md` 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from engine.errors import QueryError, StatementError
from engine.kafka.config import KafkaConfig
from engine.kafka.offsets import BrokerOffsets
from engine.plan.commands import CreateStreamV1, CreateTableV1
from engine.planner.properties import TopicProperties, sink_properties, source_properties
from engine.session import Executed, Session
from engine.sql.statements import CreateAs, CreateSource

_TIMEOUT = 30.0
_EXISTS = 36
_DEFAULT_REPLICAS = -1


@dataclass(slots=True)
class Topics:
    """Topics of a broker, as CREATE and DROP … DELETE TOPIC change them."""

    config: KafkaConfig
    offsets: BrokerOffsets

    def declare(self, done: Executed, session: Session) -> None:
        """See to the topic of a CREATE that was carried out.

        A topic over which a source is declared has to exist unless PARTITIONS is given; the topic of a CREATE AS has as many partitions as
        the leftmost source unless told otherwise.

        Raises:
            StatementError: it does not exist, or not with this number of partitions.
            QueryError: the broker refuses.
        """
        command = done.plan.ddl_command if done.plan is not None else None
        if not isinstance(command, CreateStreamV1 | CreateTableV1):
            return
        match done.statement.statement:
            case CreateSource(properties=properties):
                wanted, partitions = source_properties(properties).topic, None
            case CreateAs(properties=properties):
                wanted = sink_properties(properties).topic
                partitions = wanted.partitions or self._inherited(done, session)
            case _:
                return
        self._ensure(command, wanted, wanted.partitions or partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic; one that is not there is no error.

        Raises:
            QueryError: the broker refuses.
        """
        if topic in self.offsets.topics([topic]):
            admin = self._admin()
            try:
                admin.delete_topics([topic], operation_timeout=_TIMEOUT)[topic].result()
            except KafkaException as error:
                raise QueryError(f"the topic {topic} was not deleted: {error.args[0].str()}") from error

    def _inherited(self, done: Executed, session: Session) -> int:
        query = done.plan.query_plan if done.plan is not None else None
        names = [session.catalog.sources[name].topic for name in (query.sources if query else ()) if name in session.catalog.sources]
        found = self.offsets.topics(names[:1])
        return found[names[0]].partitions if found else 1

    def _ensure(self, command: CreateStreamV1 | CreateTableV1, wanted: TopicProperties, partitions: int | None) -> None:
        name = command.topic_name
        found = self.offsets.topics([name]).get(name)
        if found is not None:
            if wanted.partitions is not None and wanted.partitions != found.partitions:
                raise StatementError(
                    f"the topic {name} has {found.partitions} partitions, not {wanted.partitions}",
                    hint="leave PARTITIONS out, or name another topic",
                )
            return
        if partitions is None:
            raise StatementError(f"the topic {name} does not exist", hint="PARTITIONS = n in the WITH clause creates it; case matters")
        self._create(name, partitions, wanted.replicas or _DEFAULT_REPLICAS, settings_of(command, wanted))

    def _create(self, name: str, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(settings))
        admin = self._admin()
        try:
            admin.create_topics([topic], operation_timeout=_TIMEOUT)[name].result()
        except KafkaException as error:
            if error.args[0].code() != _EXISTS:
                raise QueryError(f"the topic {name} was not created: {error.args[0].str()}") from error

    def _admin(self) -> Any:
        """A client, to be held as long as its answer is awaited: one that nobody holds is destroyed, and the answer with it."""
        return AdminClient({**self.config.client(), "log_level": 0})


def settings_of(command: CreateStreamV1 | CreateTableV1, wanted: TopicProperties) -> dict[str, str]:
    """The settings of a new topic: a table's is compacted, a windowed table's old windows may go."""
    settings = {}
    if isinstance(command, CreateTableV1):
        settings["cleanup.policy"] = "compact" if command.window_info is None else "compact,delete"
    if wanted.retention_ms is not None:
        settings["retention.ms"] = str(wanted.retention_ms)
    return settings
