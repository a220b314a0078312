"""Which topics there are in memory: those that a broker would have, or those that ksqlDB's test harness makes."""

from __future__ import annotations

from enum import Enum

from kestrel_sql.errors import StatementError
from kestrel_sql.formats.windowed_key import window_bytes
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1
from kestrel_sql.planner.internal_topics import check_writable
from kestrel_sql.planner.properties.topic_shape import (
    WEEK_MS,
    TopicShape,
    check_shape,
    cleanup_policy,
    given_topic,
    inherited,
    missing_topic,
)
from kestrel_sql.planner.properties.with_clause import source_properties
from kestrel_sql.session.session import Executed, Session
from kestrel_sql.sql.nodes.statements import CreateAs, CreateSource
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record


class TopicRule(Enum):
    """Where topics come from."""

    BROKER = "as on a broker: PARTITIONS makes a topic, and one that is there must be what a statement says"
    HARNESS = "as in ksqlDB's test harness: a topic is there once it is named, and PARTITIONS say nothing"


def declare_topic(done: Executed, session: Session, broker: MemoryBroker) -> None:
    """Make the topic of a CREATE that was executed, or check the one that is there, as on a broker (rules L6).

    Raises:
        StatementError: the topic does not exist, or is another.
    """
    command = done.plan.ddl_command if done.plan is not None else None
    if not isinstance(command, CreateStreamV1 | CreateTableV1):
        return
    name, span = command.topic_name, done.statement.span
    match done.statement.statement:
        case CreateSource(properties=properties):
            wanted = source_properties(properties).topic
            if name not in broker.topics:
                if wanted.partitions is None:
                    raise missing_topic(name, span)
                check_writable(name, session.config, span)
        case CreateAs() as statement:
            left = session.catalog.sources[statement.query.source.name].topic
            policy = cleanup_policy(command, is_sink=True)
            wanted = inherited(given_topic(statement), _shape(left, broker), policy=policy)
        case _:
            return
    if name in broker.topics:
        check_shape(name, _shape(name, broker), wanted, span)
        return
    if (wanted.replicas or 1) > 1:
        raise StatementError(f"the topic {name} was not created: it cannot have {wanted.replicas} replicas in memory")
    broker.create(name, max(1, wanted.partitions or 1), wanted.retention_ms or WEEK_MS)


def _shape(name: str, broker: MemoryBroker) -> TopicShape:
    return TopicShape(partitions=broker.count_of(name), replicas=1, retention_ms=broker.retention_ms(name))


def partition_in(record: Record, session: Session, broker: MemoryBroker) -> int:
    """The partition of a record by its key, without its window; of one without a key the first."""
    count = broker.count_of(record.topic)
    if count == 1 or record.key is None:
        return 0
    source = next(iter(session.sources_of_topic(record.topic)), None)
    window = 0 if source is None else window_bytes(source.window)
    return partition_of(record.key[: len(record.key) - window], count)
