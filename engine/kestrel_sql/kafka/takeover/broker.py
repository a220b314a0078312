"""Reads from the broker what a query of ksqlDB left, and writes what its work in flight gives."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import chain

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import held_records, read_topics
from kestrel_sql.kafka.client.offsets import BrokerOffsets, committed_offsets
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.takeover.left import CHANGELOG, Committed, Left, latest_of
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record

_TIMEOUT_S = 60.0
_ANY = -1
"""Lets the partitioner choose."""
_EARLIEST = 1
"""Replaces the timestamp 0 (ms), which means "now" in librdkafka."""


def internal_topics(offsets: BrokerOffsets, group: str) -> list[Position]:
    """Return the partitions of the internal topics of a query; `group` is its consumer group."""
    names = [name for name in offsets.names() if name.startswith(f"{group}-")]
    return [position for topic in offsets.topics(names).values() for position in topic.positions]


def committed_of(
    config: KafkaConfig, group: str, positions: Iterable[Position], *, is_final: bool = False
) -> dict[Position, Committed]:
    """Return how far a group has read partitions; `is_final` says whether it has a query with EMIT FINAL.

    Raises:
        KafkaException: the broker does not answer, or refuses.
    """
    wanted = [TopicPartition(*position) for position in positions]
    if not wanted:
        return {}
    with closing(Consumer(config.client(group_id=group, enable_auto_commit=False))) as consumer:
        found = committed_offsets(consumer, wanted, _TIMEOUT_S)
    return {
        (each.topic, each.partition): Committed.of(each.offset, _metadata(each), is_final=is_final)
        for each in found
        if each.offset >= 0
    }


def _metadata(committed: TopicPartition) -> bytes:
    try:
        return (committed.metadata or "").encode()
    except UnicodeDecodeError as error:
        # librdkafka does not end it, so that other memory follows.
        return bytes(error.object)


def read_left(
    offsets: BrokerOffsets,
    group: str,
    committed: Mapping[Position, Committed],
    internal: Sequence[Position],
    sink: str,
) -> Left:
    """Read the internal topics of a query, which nobody writes any more; its topic `sink` is read if it is needed."""
    config, topics = offsets.config, {topic for topic, _ in internal}
    changelogs = [topic for topic in topics if topic.endswith(CHANGELOG)]
    records = {topic: latest_of(chain.from_iterable(held_records(config, topic))) for topic in changelogs}
    return Left(
        prefix=f"{group}-",
        records=records | read_topics(config, topics - records.keys()),
        committed=committed,
        sink=lambda: read_topics(config, [sink]).get(sink, []),
        first=offsets.first(internal),
        now=int(time.time() * 1000),
    )


def is_at_least_once(left: Left, ends: Mapping[Position, int]) -> bool:
    """Whether ksqlDB wrote without transactions, so that no marker of one stands behind its last record."""
    last = {(each.topic, each.partition): each.offset for records in left.records.values() for each in records}
    return bool(last) and all(
        ends[position] == offset + 1 for position, offset in last.items() if position[0].endswith(CHANGELOG)
    )


def write_in_flight(
    config: KafkaConfig,
    group: str,
    records: Sequence[Record],
    drained: Mapping[Position, int],
    sinks: Mapping[str, tuple[int, int]],
) -> None:
    """Write what the work in flight gave, and commit the offsets behind it, in one transaction.

    Args:
        config: the broker.
        group: the group of the query in ksqlDB.
        records: the records.
        drained: the offsets.
        sinks: for each topic its number of partitions, and how many bytes of a key hold its window.

    Raises:
        QueryError: the broker does not take it; then nothing is written.
    """
    settings = config.client(transactional_id=f"{group}-in-flight", partitioner="murmur2_random")
    producer = Producer(settings)
    try:
        producer.init_transactions(_TIMEOUT_S)
        producer.begin_transaction()
        for record in records:
            count, tail = sinks[record.topic]
            producer.produce(
                record.topic,
                key=record.key,
                value=record.value,
                timestamp=record.timestamp or _EARLIEST,
                headers=[*record.headers],
                partition=_ANY if record.key is None else partition_of(record.key[: len(record.key) - tail], count),
            )
            producer.poll(0)
        with closing(Consumer(config.client(group_id=group, enable_auto_commit=False))) as consumer:
            behind = [TopicPartition(*position, offset) for position, offset in drained.items()]
            producer.send_offsets_to_transaction(behind, consumer.consumer_group_metadata(), _TIMEOUT_S)
        producer.commit_transaction(_TIMEOUT_S)
    except KafkaException as error:
        reason = error.args[0]
        raise broker_error(f"the work in flight of {group} cannot be written: {reason.str()}", reason) from error
