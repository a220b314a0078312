"""One producer for the rows of all clients."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.acls import needed
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.sink.transaction import EARLIEST
from kestrel_sql.topics.records import Record

_POLL_S = 0.05
_TIMEOUT_MS = 30_000


class RowProducer:
    """Writes records in the order in which it gets them; the broker's word for each is a future."""

    def __init__(self, config: KafkaConfig) -> None:
        """Connect, and start the thread that listens for acknowledgements."""
        settings = config.client(
            partitioner="murmur2_random", enable_idempotence=True, message_timeout_ms=_TIMEOUT_MS, linger_ms=2
        )
        self._producer: Any = Producer({**settings, "log_level": 0})
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="kestrel-inserts", daemon=True)
        self._thread.start()

    def write(self, record: Record) -> Future[None]:
        """Hand a record over.

        Raises:
            QueryError: it is too large, or too many records wait for a broker that does not answer.
        """
        written: Future[None] = Future()

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(_refused(record.topic, error))

        try:
            self._producer.produce(
                record.topic,
                key=record.key,
                value=record.value,
                # A client takes 0 for "now" (ADR 16).
                timestamp=record.timestamp or EARLIEST,
                headers=list(record.headers),
                on_delivery=note,
            )
        except BufferError as error:
            raise QueryError(f"the topic {record.topic} takes rows too slowly", hint="try again") from error
        except KafkaException as error:
            raise _refused(record.topic, error.args[0]) from error
        return written

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
    return QueryError(f"the record for the topic {topic} was not written: {error.str()}", hint=needed(error))
