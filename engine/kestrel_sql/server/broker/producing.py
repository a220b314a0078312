"""One producer for the rows of all clients."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kestrel_sql.errors import EngineError, QueryError
from kestrel_sql.kafka.client.acls import broker_error
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.sink.transaction import EARLIEST
from kestrel_sql.server.serving.backend import Written
from kestrel_sql.topics.records import Record

_POLL_S = 0.05
_TIMEOUT_MS = 30_000


class _Batch:
    """Waits for the acknowledgements of records."""

    def __init__(self) -> None:
        self._result: Future[Written] = Future()
        self._lock = threading.Lock()
        self._noted = 0
        self._handed: int | None = None
        self._failed: tuple[int, EngineError] | None = None

    def note(self, at: int, topic: str, error: KafkaError | None, _message: Message) -> None:
        """The broker has answered for the record at this index; in the thread that listens."""
        with self._lock:
            self._noted += 1
            if error is not None:
                self._fail(at, _refused(topic, error))
            self._end()

    def close(self, handed: int, error: EngineError | None = None) -> Future[Written]:
        """So many records were handed over; `error` refused the one after them."""
        with self._lock:
            self._handed = handed
            if error is not None:
                self._fail(handed, error)
            self._end()
        return self._result

    def _fail(self, at: int, error: EngineError) -> None:
        if self._failed is None or at < self._failed[0]:
            self._failed = at, error

    def _end(self) -> None:
        if self._noted == self._handed:
            self._result.set_result(Written(self._handed) if self._failed is None else Written(*self._failed))


class RowProducer:
    """Writes records in the order in which it gets them."""

    def __init__(self, config: KafkaConfig) -> None:
        """Connect, and start the thread that listens for acknowledgements."""
        settings = config.client(
            partitioner="murmur2_random", enable_idempotence=True, message_timeout_ms=_TIMEOUT_MS, linger_ms=2
        )
        self._producer: Any = Producer({**settings, "log_level": 0})
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="kestrel-inserts", daemon=True)
        self._thread.start()

    def write(self, records: Sequence[Record]) -> Future[Written]:
        """Hand records over, up to the first that is refused."""
        batch = _Batch()
        for at, record in enumerate(records):
            try:
                self._producer.produce(
                    record.topic,
                    key=record.key,
                    value=record.value,
                    # A client takes 0 for "now" (ADR 16).
                    timestamp=record.timestamp or EARLIEST,
                    headers=list(record.headers),
                    on_delivery=partial(batch.note, at, record.topic),
                )
            except BufferError:
                slow = QueryError(f"the topic {record.topic} takes rows too slowly", hint="try again")
                return batch.close(at, slow)
            except KafkaException as error:
                return batch.close(at, _refused(record.topic, error.args[0]))
        return batch.close(len(records))

    def close(self) -> None:
        """Wait for what is on its way."""
        self._closed.set()
        self._thread.join(1)
        self._producer.flush(5)
        self._producer.close()

    def _listen(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(_POLL_S)


def _refused(topic: str, error: KafkaError) -> QueryError:
    return broker_error(f"the record for the topic {topic} was not written: {error.str()}", error)
