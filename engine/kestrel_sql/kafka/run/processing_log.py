"""Writes the processing log to a topic: errors of reading, computing and writing, with their records (rules E8)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.queries.bad_records import query_of
from kestrel_sql.spark.stages.log_entries import DESERIALIZATION
from kestrel_sql.topics.records import LogEntry

_FLUSH_S = 30
_PARTS = (
    "deserializationError",
    "recordProcessingError",
    "productionError",
    "serializationError",
    "kafkaStreamsThreadError",
)


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
            self._send(json.dumps(shape(entry), ensure_ascii=False).encode())
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


def shape(entry: LogEntry, now: Callable[[], float] = time.time) -> dict[str, Any]:
    """Return an entry in ksqlDB's form, with the source record in addition (`source`)."""
    return {
        "level": "ERROR",
        "logger": entry.logger,
        "time": int(now() * 1000),
        "message": {"type": entry.kind, _PARTS[entry.kind]: _part(entry)},
        "source": {"topic": entry.topic, "partition": entry.partition, "offset": entry.offset},
    }


def _part(entry: LogEntry) -> dict[str, Any]:
    match entry.kind:
        case 0 | 3:
            target, _, message = entry.message.partition(": ")
            known = target in ("key", "value")
            said = {"target": target if known else None, "errorMessage": message if known else entry.message}
            return {**said, **_record(entry), "cause": list(entry.cause), "topic": entry.topic}
        case 2:
            return {"errorMessage": entry.message}
        case 4:
            causes = dict.fromkeys([entry.message, *entry.cause])
            return {"errorMessage": entry.message, "threadName": query_of(entry.logger), "cause": list(causes)}
        case _:
            return {"errorMessage": entry.message, **_record(entry), "cause": list(entry.cause)}


def _record(entry: LogEntry) -> dict[str, str]:
    """The bytes that could not be read, in base64, or the row; empty unless the setting asks for it."""
    if entry.record is None:
        return {}
    return {"recordB64" if entry.kind == DESERIALIZATION else "record": entry.record}
