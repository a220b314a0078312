"""Temporary topics for tests: created, filled, read whole, and deleted.

One client of each kind stays open: a new client waits half a second for its first answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from msgspec.structs import replace

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import READER, until_ends
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.client.topic_configs import awaited_shape
from kestrel_sql.kafka.sink.transaction import TIMEOUT
from kestrel_sql.topics.records import Record

AHEAD_MS = 1
"""How far the clock of scratch topics is ahead.

Librdkafka reads the timestamp 0 as "now"; so 0 is written as 1, 1 as 2, and so on.
"""

_CONNECT_S = 10
_LOOK_S = 0.02
_FOR_EVER = {"retention.ms": "-1", "cleanup.policy": "delete"}
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})


class ScratchTopics:
    """Topics on a broker, for as long as a test needs them; may be used by several threads."""

    def __init__(self, config: KafkaConfig, ahead_ms: int = AHEAD_MS) -> None:
        """Connect to the broker; with `ahead_ms` 0, only the timestamp 0 becomes 1.

        Raises:
            EngineError: it does not answer.
        """
        self.config = config
        self._ahead = ahead_ms
        self._admin = admin_client(config)
        self._sending, self._reading = Lock(), Lock()
        self._partitions: dict[str, int] = {}
        try:
            self._admin.list_topics(timeout=_CONNECT_S)
        except KafkaException as error:
            raise EngineError(
                f"the broker {config.servers} does not answer: {error.args[0].str()}", hint="is it running?"
            ) from error
        self._producer = Producer(config.client(linger_ms=5, enable_idempotence=True))
        self._consumer = Consumer(config.client() | dict(READER))

    def make(self, partitions: Mapping[str, int]) -> None:
        """Create topics that keep everything, with so many partitions each.

        Raises:
            EngineError: the broker refuses one.
        """
        wanted = [NewTopic(name, count, config=_FOR_EVER) for name, count in partitions.items()]
        self._partitions |= partitions
        if wanted:
            _settle(self._admin.create_topics(wanted, operation_timeout=TIMEOUT), "topic {} cannot be created")

    def await_known(self, partitions: Mapping[str, int]) -> None:
        """Wait until every broker knows these topics, and the producer, which may remember others of these names.

        Raises:
            EngineError: they do not in time.
        """
        for name in partitions:
            awaited_shape(self.config, name)
        deadline = time.monotonic() + TIMEOUT
        for name, count in partitions.items():
            while len(self._producer.list_topics(name, timeout=TIMEOUT).topics[name].partitions) != count:
                if time.monotonic() > deadline:
                    raise EngineError(f"no broker leads the topic {name}")
                time.sleep(_LOOK_S)

    def know(self, partitions: Mapping[str, int]) -> None:
        """Take topics that others have made for such as were made here."""
        self._partitions |= partitions

    def remove(self, names: Iterable[str], groups: Iterable[str] = ()) -> None:
        """Delete topics, and consumer groups that have written to them; those that are gone are no error.

        Raises:
            EngineError: the broker refuses.
        """
        if topics := list(names):
            _settle(self._admin.delete_topics(topics, operation_timeout=TIMEOUT), "topic {} cannot be deleted")
        if members := list(groups):
            _settle(
                self._admin.delete_consumer_groups(members, request_timeout=TIMEOUT),
                "consumer group {} cannot be deleted",
            )
        for name in topics:
            self._partitions.pop(name, None)

    def send(self, records: Sequence[Record]) -> list[Record | str]:
        """Write records in order; give each with the offset that it got, or why the broker refused it."""
        done: list[Record | str] = ["the broker did not answer"] * len(records)

        def note(at: int, error: KafkaError | None, message: Message) -> None:
            there = replace(records[at], partition=message.partition() or 0, offset=message.offset() or 0)
            done[at] = there if error is None else error.str()

        with self._sending:
            for at, record in enumerate(records):
                headers: Any = list(record.headers)
                try:
                    self._producer.produce(
                        record.topic,
                        record.value,
                        record.key,
                        partition=record.partition,
                        timestamp=record.timestamp + self._ahead or AHEAD_MS,
                        headers=headers,
                        on_delivery=partial(note, at),
                    )
                except KafkaException as refused:
                    done[at] = refused.args[0].str()
                self._producer.poll(0)
            self._producer.flush(TIMEOUT)
        return done

    def read(self, names: Iterable[str]) -> dict[str, list[Record]]:
        """All committed records that topics made here hold now, each partition's in offset order.

        Raises:
            EngineError: the broker gives nothing for too long.
            KafkaException: it refuses.
        """
        found: dict[str, list[Record]] = {name: [] for name in names}
        places = [TopicPartition(name, partition, 0) for name in found for partition in range(self._partitions[name])]
        ends = BrokerOffsets(self.config).written((place.topic, place.partition) for place in places)
        with self._reading:
            # The client looks for unknown topics again after half a second.
            self._consumer.list_topics(timeout=TIMEOUT)
            self._consumer.assign(places)
            try:
                for record in chain.from_iterable(until_ends(self._consumer, ends)):
                    found[record.topic].append(replace(record, timestamp=record.timestamp - self._ahead))
            finally:
                self._consumer.unassign()
        for records in found.values():
            records.sort(key=lambda record: (record.partition, record.offset))
        return found

    def close(self) -> None:
        """Close the clients before the interpreter ends."""
        self._consumer.close()
        self._producer.close()


def _settle(futures: Mapping[str, Future[object]], complaint: str) -> None:
    """Wait for the answers to one call."""
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() not in _GONE:
                raise EngineError(f"{complaint.format(name)}: {error.args[0].str()}") from error
