"""Reads what one of two systems writes: all committed records of its topics, and on as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from kestrel_sql.errors import UsageError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import broker_errors, is_end, open_reader, partition_counts
from kestrel_sql.kafka.client.positions import Position

_CHUNK = 5_000
_FETCHED_S = 1.0
"""For how long (s) records may be on their way to the client."""

_NEVER = float("-inf")


class Side(msgspec.Struct):
    """The topics of one system with their partitions, and how far they are read."""

    config: KafkaConfig
    topics: Mapping[str, int]
    consumer: Any
    positions: dict[Position, int] = {}
    count: int = 0
    _ended: dict[Position, float] = {}
    """When (s) the end of each partition was read; infinity where nothing has come since."""
    _read_at: float = _NEVER

    def read(self) -> tuple[list[Any], float]:
        """Return the messages that are there, and when (s) they were read."""
        before, self._read_at = self._read_at, time.monotonic()
        messages = self.consumer.consume(_CHUNK, 0)
        found = []
        for message in messages:
            error, position = message.error(), (message.topic(), message.partition())
            if error is None:
                found.append(message)
                self.positions[position] = message.offset() + 1
                if self._ended[position] == float("inf"):
                    self._ended[position] = before - _FETCHED_S
            elif is_end(message):
                self._ended[position] = float("inf")
            else:
                raise KafkaException(error)
        self.count += len(found)
        return found, self._read_at

    def reached(self) -> float:
        """Up to when (s) all that the system had written was read."""
        return min(self._read_at - _FETCHED_S, *self._ended.values())

    def lag(self) -> int | None:
        """How many offsets of the topics are not read yet; None as long as the broker has not told."""
        found = 0
        for position, ended in self._ended.items():
            if ended < float("inf"):
                end = self.consumer.get_watermark_offsets(TopicPartition(*position), cached=True)[1]
                if end < 0:
                    return None
                found += max(0, end - self.positions.get(position, 0))
        return found


@contextmanager
def open_side(name: str, config: KafkaConfig, topics: list[str]) -> Iterator[Side]:
    """Begin to read topics from their beginning.

    Raises:
        UsageError: one of them does not exist.
        EngineError: the broker does not answer.
    """
    counts = partition_counts(config, topics)
    for topic in topics:
        if topic not in counts:
            raise UsageError(f"the {name} broker {config.servers} has no topic {topic}", hint="case matters")
    positions = [(topic, partition) for topic, count in counts.items() for partition in range(count)]
    with broker_errors(config), open_reader(config) as consumer:
        consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in positions])
        yield Side(config, counts, consumer, _ended=dict.fromkeys(positions, _NEVER))
