"""Writes the processing log of queries in memory to a topic with a stream of its own (rules E8)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TypedDict

import msgspec

from kestrel_sql.dataflow.log_entries import DESERIALIZATION, LATE, PROCESSING, late_count
from kestrel_sql.planner.internal_topics import check_writable
from kestrel_sql.queries.bad_records import query_of
from kestrel_sql.session.session import Session
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.records import LogEntry, Record

AUTO_CREATE = "ksql.logging.processing.stream.auto.create"
STREAM_NAME = "ksql.logging.processing.stream.name"
TOPIC_NAME = "ksql.logging.processing.topic.name"

_CREATE = """CREATE STREAM {stream} (
  logger STRING, level STRING, time BIGINT,
  message STRUCT<
    type INT,
    deserializationError STRUCT<target STRING, errorMessage STRING, recordB64 STRING, cause ARRAY<STRING>, `topic` STRING>,
    recordProcessingError STRUCT<errorMessage STRING, record STRING, cause ARRAY<STRING>>,
    productionError STRUCT<errorMessage STRING>,
    serializationError STRUCT<target STRING, errorMessage STRING, record STRING, cause ARRAY<STRING>, `topic` STRING>,
    kafkaStreamsThreadError STRUCT<errorMessage STRING, threadName STRING, cause ARRAY<STRING>>>
) WITH (KAFKA_TOPIC = {topic}, VALUE_FORMAT = 'JSON');"""  # noqa: E501

_PARTS = (
    "deserializationError",
    "recordProcessingError",
    "productionError",
    "serializationError",
    "kafkaStreamsThreadError",
)


class LogStream(msgspec.Struct):
    """The stream over the processing log; there is none until a property of the session asks for it."""

    session: Session
    broker: MemoryBroker
    _topic: str | None = None

    def open(self) -> None:
        """Create the stream if the session asks for it.

        Raises:
            EngineError: the properties give it a name that it cannot have.
        """
        config = self.session.config
        if self._topic is not None or (config.get(AUTO_CREATE) or "").lower() != "true":
            return
        stream = (config.get(STREAM_NAME) or "KSQL_PROCESSING_LOG").upper()
        topic = config.get(TOPIC_NAME) or f"{config['ksql.service.id']}ksql_processing_log"
        check_writable(topic, config)
        if stream not in self.session.catalog.sources:
            quoted = {"stream": f"`{stream.replace('`', '``')}`", "topic": "'" + topic.replace("'", "''") + "'"}
            for parsed in self.session.parse(_CREATE.format(**quoted)):
                self.session.execute(parsed)
        self.broker.create(topic)
        self._topic = topic

    def write(self, entries: Sequence[LogEntry]) -> None:
        """Append entries to the topic, if there is one."""
        for entry in entries if self._topic is not None else ():
            document = shape(entry)
            value = json.dumps(document, ensure_ascii=False).encode()
            self.broker.produce(Record(topic=self._topic or "", key=None, value=value, timestamp=document["time"]))


class _Shape(TypedDict):
    level: str
    logger: str
    time: int
    message: dict[str, object]
    source: dict[str, object]


def shape(entry: LogEntry, now: Callable[[], float] = time.time) -> _Shape:
    """Return an entry in ksqlDB's form, with the source record in addition (`source`)."""
    kind = PROCESSING if entry.kind == LATE else entry.kind
    return {
        "level": "WARN" if entry.kind == LATE else "ERROR",
        "logger": entry.logger,
        "time": int(now() * 1000),
        "message": {"type": kind, _PARTS[kind]: _part(entry)},
        "source": {"topic": entry.topic, "partition": entry.partition, "offset": entry.offset},
    }


def _part(entry: LogEntry) -> dict[str, object]:
    match entry.kind:
        case 0 | 3:
            target, _, message = entry.message.partition(": ")
            known = target in ("key", "value")
            said = {"target": target if known else None, "errorMessage": message if known else entry.message}
            return {**said, **_record(entry), "cause": list(entry.cause), "topic": entry.topic}
        case 5:
            return {"errorMessage": f"{entry.message} records=[{late_count(entry)}]", "cause": []}
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
