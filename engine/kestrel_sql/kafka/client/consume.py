"""Reads the committed records of topics, as an application would."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Message, TopicPartition

from kestrel_sql.errors import AccessError, EngineError
from kestrel_sql.kafka.client.acls import needed
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.topics.records import Record

TIMEOUT = 30
"""The timeout (s) of requests to the broker."""

_END_OF_PARTITION = -191
_CHUNK = 1_000
_LOOK_S = 0.2
READER: Mapping[str, str | int | bool] = {
    "group.id": "kestrel-reader",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 20,
    # A consumer that has 100,000 records of a partition ahead pauses for a second by default, and still does when it is
    # assigned the partition anew; what it has ahead of the end is read for nothing.
    "queued.min.messages": 10_000,
    "fetch.queue.backoff.ms": 5,
}
"""The properties of a consumer that reads a topic to its end."""


def partition_counts(
    config: KafkaConfig, topics: Iterable[str] | None = None, timeout: float = TIMEOUT
) -> dict[str, int]:
    """Return the number of partitions of these topics (by default of all) that exist; `timeout` is in seconds.

    Raises:
        EngineError: the broker does not answer.
    """
    with broker_errors(config):
        found = admin_client(config).list_topics(timeout=timeout).topics
    wanted = None if topics is None else set(topics)
    return {
        name: len(topic.partitions)
        for name, topic in found.items()
        if topic.error is None and (wanted is None or name in wanted)
    }


def read_topics(config: KafkaConfig, topics: Iterable[str]) -> dict[str, list[Record]]:
    """Return all committed records of topics by topic, sorted by partition and offset.

    Topics that do not exist are left out.

    Raises:
        EngineError: the broker does not answer.
    """
    counts = partition_counts(config, topics)
    found: dict[str, list[Record]] = {topic: [] for topic in counts}
    wanted = [
        TopicPartition(topic, partition, OFFSET_BEGINNING)
        for topic, count in counts.items()
        for partition in range(count)
    ]
    if not wanted:
        return found
    with broker_errors(config), open_reader(config) as consumer:
        consumer.assign(wanted)
        for record in chain.from_iterable(until_ends(consumer)):
            found[record.topic].append(record)
    for records in found.values():
        records.sort(key=lambda record: (record.partition, record.offset))
    return found


def follow_topic(config: KafkaConfig, topic: str, stopped: Callable[[], bool]) -> Iterator[list[Record]]:
    """Return the records that arrive in a topic from now on, until `stopped`.

    Raises:
        EngineError: the topic does not exist, or the broker refuses.
    """
    with broker_errors(config), open_reader(config) as consumer:
        consumer.assign(_partitions(config, topic, OFFSET_END))
        while not stopped():
            yield [to_record(message) for message in _good(consumer.consume(_CHUNK, _LOOK_S))]


def held_records(config: KafkaConfig, topic: str) -> Iterator[list[Record]]:
    """Return the committed records of a topic, sorted by offset within each partition.

    Raises:
        EngineError: the topic does not exist, or the broker does not answer.
    """
    with broker_errors(config), open_reader(config) as consumer:
        partitions = _partitions(config, topic, OFFSET_BEGINNING)
        consumer.assign(partitions)
        yield from until_ends(consumer)


def last_records(config: KafkaConfig, topic: str, count: int) -> list[Record]:
    """Return the last `count` committed records of each partition of a topic, sorted by partition and offset.

    Raises:
        EngineError: the topic does not exist, or the broker does not answer.
    """
    with broker_errors(config), open_reader(config) as consumer:
        return [
            record
            for partition in _partitions(config, topic, OFFSET_BEGINNING)
            for record in _last_of(consumer, partition, count)
        ]


def _last_of(consumer: Consumer, partition: TopicPartition, count: int) -> list[Record]:
    """Read from further and further back: control records and compaction leave offsets without records."""
    low, high = consumer.get_watermark_offsets(partition, timeout=TIMEOUT)
    back = count
    while True:
        start = max(low, high - back)
        consumer.assign([TopicPartition(partition.topic, partition.partition, start)])
        found = list(chain.from_iterable(until_ends(consumer)))
        if len(found) >= count or start == low:
            return found[-count:]
        back *= 4


def to_record(message: Message) -> Record:
    """Convert a message to a record; a missing timestamp is -1."""
    given: Any = message.headers() or ()
    headers = tuple((name, _bytes(value)) for name, value in given)
    return Record(
        topic=message.topic() or "",
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        timestamp=message.timestamp()[1],
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        headers=headers,
    )


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _partitions(config: KafkaConfig, topic: str, start: int) -> list[TopicPartition]:
    count = partition_counts(config, [topic]).get(topic)
    if count is None:
        raise EngineError(f"topic {topic} does not exist", hint="SHOW TOPICS lists those that exist; case matters")
    return [TopicPartition(topic, partition, start) for partition in range(count)]


def until_ends(consumer: Consumer, ends: Mapping[Position, int] | None = None) -> Iterator[list[Record]]:
    """Return the records up to the ends that the assigned partitions have now, and some behind them, in chunks.

    With `ends`, a partition is read at least up to this offset, and open transactions before it are waited for.
    Without them, a transaction that was committed just now may be missing, because a broker answers a commit before it
    has marked every partition, and a leader that is new may report an earlier end.

    Raises:
        EngineError: the broker sends nothing for too long.
        KafkaException: the broker refuses.
    """
    least = ends or {}
    # As long as producers write, the client may never tell that it is at the end.
    left = {
        (each.topic, each.partition): consumer.get_watermark_offsets(each, timeout=TIMEOUT)[1]
        for each in consumer.assignment()
    }
    deadline = time.monotonic() + TIMEOUT
    while left:
        messages = consumer.consume(_CHUNK, 0.1)
        if messages:
            deadline = time.monotonic() + TIMEOUT
        elif time.monotonic() > deadline:
            raise EngineError(f"the broker sent nothing for {TIMEOUT} s", hint="check that it still runs")
        yield [to_record(message) for message in _good(messages) if _position(message) in left]
        for message in messages:
            position = _position(message)
            reached = (message.offset() or 0) + (message.error() is None)
            is_at_end = is_end(message) or (message.error() is None and reached >= left.get(position, 0))
            if is_at_end and reached >= least.get(position, 0):
                left.pop(position, None)


def _position(message: Message) -> Position:
    return message.topic() or "", message.partition() or 0


def is_end(message: Message) -> bool:
    """Whether a message only says that a partition was read to its end."""
    error = message.error()
    return error is not None and error.code() == _END_OF_PARTITION


def _good(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages that are records.

    Raises:
        KafkaException: a message is an error.
    """
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        elif error.code() != _END_OF_PARTITION:
            raise KafkaException(error)


def open_reader(config: KafkaConfig) -> closing[Consumer]:
    """Open a consumer with the properties of `READER`."""
    return closing(Consumer(config.client() | dict(READER)))


@contextmanager
def broker_errors(config: KafkaConfig) -> Iterator[None]:
    """Let errors of the client name the broker, and say what to do.

    Raises:
        EngineError: in place of a KafkaException.
    """
    try:
        yield
    except KafkaException as error:
        reason, needs = error.args[0], needed(error.args[0])
        message = f"the broker {config.servers}: {reason.str()}"
        if needs is not None:
            raise AccessError(message, hint=needs) from error
        raise EngineError(message, hint="check that it runs and that the credentials are right") from error
