"""Topics and records made on purpose, for tests: each record with its own partition, timestamp and headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from engine.errors import EngineError
from engine.kafka.config import KafkaConfig
from engine.kafka.transaction import EARLIEST, TIMEOUT
from engine.topics.records import Record

_FOR_EVER = {"retention.ms": "-1", "cleanup.policy": "delete"}


def make_topics(config: KafkaConfig, partitions: Mapping[str, int]) -> None:
    """Create topics that keep everything, with so many partitions each.

    Raises:
        EngineError: the broker refuses one.
    """
    admin = AdminClient(config.client())
    wanted = [NewTopic(name, count, config=_FOR_EVER) for name, count in partitions.items()]
    for name, future in (admin.create_topics(wanted, operation_timeout=TIMEOUT) if wanted else {}).items():
        try:
            future.result()
        except KafkaException as error:
            raise EngineError(f"topic {name} cannot be created: {error.args[0].str()}") from error


def remove_topics(config: KafkaConfig, names: Iterable[str]) -> None:
    """Delete topics; those that are gone are no error."""
    admin = AdminClient(config.client())
    for future in admin.delete_topics(wanted, operation_timeout=TIMEOUT).values() if (wanted := list(names)) else ():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise EngineError(f"topics cannot be deleted: {error.args[0].str()}") from error


def send_records(config: KafkaConfig, records: Sequence[Record]) -> list[Record | str]:
    """Write records in order; give each with the offset that it got, or why the broker refused it."""
    producer = Producer(config.client(linger_ms=5, enable_idempotence=True))
    done: list[Record | str] = ["the broker did not answer"] * len(records)

    def note(at: int, record: Record, error: KafkaError | None, message: Message) -> None:
        done[at] = error.str() if error is not None else replace(record, partition=message.partition() or 0, offset=message.offset() or 0)

    for at, record in enumerate(records):
        headers: Any = list(record.headers)
        producer.produce(
            record.topic,
            record.value,
            record.key,
            partition=record.partition,
            timestamp=record.timestamp or EARLIEST,
            headers=headers,
            on_delivery=partial(note, at, record),
        )
        producer.poll(0)
    producer.flush(TIMEOUT)
    return done
