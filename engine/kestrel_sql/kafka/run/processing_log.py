"""Writes the processing log to a topic: errors of reading, computing and writing, with their records (rules E8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.queries.processing_log import shape
from kestrel_sql.topics.records import LogEntry

_FLUSH_S = 30


class LogWriter:
    """Writes log entries to a topic, if there is one. The entries of a replayed batch may be written twice."""

    def __init__(self, config: KafkaConfig, topic: str | None, say: Callable[[str], None]) -> None:
        """Set the topic, without connecting; `say` tells the user if the broker refuses entries."""
        self._config = config
        self._topic = topic
        self._say = say
        self._producer: Any = None
        self._refused: list[str] = []

    def write(self, entries: Sequence[LogEntry]) -> None:
        """Write entries, and wait until the broker has them. A failure does not stop the query."""
        if self._topic is None or not entries:
            return
        if self._producer is None:
            self._producer = Producer(
                {**self._config.client(enable_idempotence=True, message_timeout_ms=30_000), "log_level": 0}
            )
        self._refused.clear()
        for entry in entries:
            self._send(json.dumps(shape(entry), ensure_ascii=False).encode("utf-8", "replace"))
        left = self._producer.flush(_FLUSH_S)
        lost = len(self._refused) + left
        if lost:
            reason = self._refused[0] if self._refused else "the broker does not answer"
            self._say(f"{lost} entries of the processing log were not written to the topic {self._topic}: {reason}")

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _send(self, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value=value, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(error.str())
