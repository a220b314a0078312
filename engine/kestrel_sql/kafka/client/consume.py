"""Reading topics as an application would: what transactions committed, and nothing of those that were aborted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Message, TopicPartition

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.acls import needed
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.topics.records import Record

TIMEOUT = 30
"""Seconds that the broker has to answer."""

_END_OF_PARTITION = -191
_CHUNK = 1_000
_LOOK_S = 0.2
READER: Mapping[str, str | int | bool] = {
    "group.id": "kestrel-reader",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 20,
}
"""How a topic is read to its end and no further."""


def partition_counts(config: KafkaConfig, topics: Iterable[str] | None = None) -> dict[str, int]:
    """The number of partitions of the topics that exist, of all by default.

    Raises:
        EngineError: the broker does not answer.
    """
    with _errors(config):
        found = admin_client(config).list_topics(timeout=TIMEOUT).topics
    wanted = None if topics is None else set(topics)
    return {
        name: len(topic.partitions)
        for name, topic in found.items()
        if topic.error is None and (wanted is None or name in wanted)
    }


def read_topics(config: KafkaConfig, topics: Iterable[str]) -> dict[str, list[Record]]:
    """All committed records that the topics hold now, by topic, each partition's in offset order; topics that do not exist are left out.

    Raises:
        EngineError: the broker does not answer.
    """
    counts = partition_counts(config, topics)
    found: dict[str, list[Record]] = {topic: [] for topic in counts}
    places = [
        TopicPartition(topic, partition, OFFSET_BEGINNING)
        for topic, count in counts.items()
        for partition in range(count)
    ]
    if not places:
        return found
    with _errors(config), _consumer(config) as consumer:
        consumer.assign(places)
        for record in chain.from_iterable(until_ends(consumer, len(places))):
            found[record.topic].append(record)
    for records in found.values():
        records.sort(key=lambda record: (record.partition, record.offset))
    return found


def follow_topic(config: KafkaConfig, topic: str, stopped: Callable[[], bool]) -> Iterator[list[Record]]:
    """The records that come into a topic from now on, until `stopped`.

    Raises:
        EngineError: there is no such topic, or the broker refuses.
    """
    with _errors(config), _consumer(config) as consumer:
        consumer.assign(_places(config, topic, OFFSET_END))
        while not stopped():
            yield [to_record(message) for message in _good(consumer.consume(_CHUNK, _LOOK_S))]


def held_records(config: KafkaConfig, topic: str) -> Iterator[list[Record]]:
    """The committed records that a topic holds by now, in offset order within each partition.

    Raises:
        EngineError: there is no such topic, or the broker does not answer.
    """
    with _errors(config), _consumer(config) as consumer:
        places = _places(config, topic, OFFSET_BEGINNING)
        consumer.assign(places)
        yield from until_ends(consumer, len(places))


def to_record(message: Message) -> Record:
    """A message as the record that it is; a timestamp that the topic does not keep is -1."""
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


def _places(config: KafkaConfig, topic: str, start: int) -> list[TopicPartition]:
    count = partition_counts(config, [topic]).get(topic)
    if count is None:
        raise EngineError(f"topic {topic} does not exist", hint="SHOW TOPICS lists those that do; case matters")
    return [TopicPartition(topic, partition, start) for partition in range(count)]


def until_ends(consumer: Consumer, partitions: int, *, settled: bool = False) -> Iterator[list[Record]]:
    """Everything up to the ends of all partitions.

    Open transactions are waited for only where the end is to be `settled`. Without it, a transaction may be missing that was committed a
    moment ago: a broker answers before it has marked every partition.

    Raises:
        EngineError: the broker gives nothing for too long.
        KafkaException: it refuses.
    """
    ended: set[tuple[str | None, int | None]] = set()
    deadline = time.monotonic() + TIMEOUT
    while len(ended) < partitions:
        messages = consumer.consume(_CHUNK, 0.1)
        if messages:
            deadline = time.monotonic() + TIMEOUT
        elif time.monotonic() > deadline:
            raise EngineError(f"the broker gave nothing for {TIMEOUT} s", hint="is it still there?")
        ends = [message for message in messages if _is_end(message)]
        ended |= {
            (message.topic(), message.partition()) for message in ends if not settled or _is_last(consumer, message)
        }
        yield [to_record(message) for message in _good(messages)]


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == _END_OF_PARTITION


def _is_last(consumer: Consumer, end: Message) -> bool:
    """Whether nothing of an open transaction follows."""
    place = TopicPartition(end.topic() or "", end.partition() or 0)
    _, high = consumer.get_watermark_offsets(place, cached=True)
    return (end.offset() or 0) >= high


def _good(messages: Iterable[Message]) -> Iterator[Message]:
    """The records among what a consumer gave.

    Raises:
        KafkaException: an error that is among them.
    """
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        elif error.code() != _END_OF_PARTITION:
            raise KafkaException(error)


@contextmanager
def _consumer(config: KafkaConfig) -> Iterator[Consumer]:
    consumer = Consumer(config.client() | dict(READER))
    try:
        yield consumer
    finally:
        consumer.close()


@contextmanager
def _errors(config: KafkaConfig) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        reason = error.args[0]
        hint = needed(reason) or "is it there, and are the credentials right?"
        raise EngineError(f"the broker {config.servers}: {reason.str()}", hint=hint) from error
