"""One writer of the sink: a producer with a transactional id, and the number of the batch that it wrote last.

It lives in a Python worker of Spark from batch to batch. The number of a batch is kept as an offset of the consumer group that is called as
the query, in the transaction that writes the batch: either both are there or none. Its place is the topic-partition of the first record,
which no other writer of the batch writes to, and which is the same when the batch is replayed.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.spark.io.columns import to_list

Answer = TypeVar("Answer")

TIMEOUT = 60
"""Seconds that the broker has to answer."""

_BATCH_BYTES = 256 * 1024
_FRAME_BYTES = 512
"""What a batch is larger on the way than librdkafka counts: its head, and what compression adds to what it cannot compress."""

_LARGEST_REQUEST = 100_000_000
"""What a broker accepts at all; the size of a record is for the topic to limit."""

EARLIEST = 1
"""Stands for the timestamp 0 (ms), which librdkafka takes for "now"."""

_TRANSACTION_MS = 120_000
_KEPT = 16

_SILENT = logging.getLogger("kestrel_sql.kafka.writer")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

_LOOK_SECONDS = 0.5
_POLL_EVERY = 2_000
_QUEUED = 200_000
"""How many records may be on their way: for so many it is kept what caused them."""

Headers = list[tuple[str, str | bytes | None]]

_TUNING: Mapping[str, str | int | bool] = {
    "linger.ms": 5,
    "compression.type": "lz4",
    "message.max.bytes": _LARGEST_REQUEST,
    "queue.buffering.max.messages": _QUEUED,
    "queue.buffering.max.kbytes": 131_072,
    "partitioner": "murmur2_random",
    "enable.idempotence": True,
    "delivery.report.only.error": True,
    # A producer that connects when it has to waits for its first broker, then for its coordinator: 60 ms, and now and then 500, in which
    # a batch stands still. One that connects to all at once is open after 5.
    "enable.sparse.connections": False,
    # Its other way, which begins with the first servers again when all brokers are away, forgets requests of a transaction that were open:
    # calls then do not end, whatever time they were given (ADR 16).
    "metadata.recovery.strategy": "none",
}

_TRANSPORT, _TIMED_OUT, _STATE = -195, -185, -172
"""librdkafka's own codes, which the Python client keeps to itself."""

_PURGED = frozenset({-152, -151})
"""What the records of a transaction that failed are said to be."""

_PASSING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        _TRANSPORT,
        _TIMED_OUT,
    }
)
"""Errors of a broker that has just started or lost a peer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a batch is spread: the number of writers, and of partitions by topic; a replay must use that of the first attempt."""

    slots: int
    partitions: Mapping[str, int]

    def distributes_as(self, other: Layout | None, topics: Iterable[str] | None) -> bool:
        """Whether records of these topics (None: of any) go the same ways by another layout."""
        if other is None or self.slots != other.slots:
            return False
        named = {*self.partitions, *other.partitions} if topics is None else topics
        return all(self.partitions.get(topic) == other.partitions.get(topic) for topic in named)

    def to_json(self, run: int, topics: Mapping[str, int]) -> str:
        """What a writer leaves beside the number of a batch; only its own topics are of interest."""
        return json.dumps({"run": run, "slots": self.slots, "partitions": dict(topics)}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Mark:
    """A batch that a writer committed."""

    batch: int
    run: int
    slots: int
    partitions: Mapping[str, int]

    @staticmethod
    def of(committed: TopicPartition) -> Mark | None:
        """Read what stands in the consumer group, if anything does."""
        if committed.offset < 0:
            return None
        try:
            left = json.loads(committed.metadata or "{}")
        except ValueError:
            left = {}
        return Mark(committed.offset, left.get("run", 0), left.get("slots", 0), left.get("partitions", {}))


SENT = ("topic", "partition", "key", "value", "timestamp")
CAUSE = ("src_topic", "src_part", "src_off")
"""What is written of a record (its headers besides), and which record of a source led to it."""


class WriteError(Exception):
    """A batch that could not be written; the text is for a user."""


class Writer:
    """Writes the share of one slot."""

    def __init__(
        self, config: KafkaConfig, query: str, slot: int, topics: frozenset[str], *, transactional: bool
    ) -> None:
        """Open the producer: whoever had its transactional id before can commit nothing any more."""
        self._topics = topics
        self._failed: list[tuple[KafkaError, Message]] = []
        self._sent: deque[pa.RecordBatch] = deque()
        self.last: int | None = None
        settings = config.client(**_TUNING, batch_size=_batch_bytes(config, topics))
        if transactional:
            settings |= {"transactional.id": f"{query}-{slot}", "transaction.timeout.ms": _TRANSACTION_MS}
            self._group = _group(config, query)
        # That another worker of the run has the slot since is nothing to tell a user of, but librdkafka would.
        self._producer = Producer(settings, logger=_SILENT)
        if transactional:
            self._retried(lambda: self._producer.init_transactions(TIMEOUT))

    def serves(self, topics: frozenset[str]) -> bool:
        """Whether the producer was opened for these topics, whose limits it keeps to."""
        return topics <= self._topics

    def mark(self, place: tuple[str, int]) -> Mark | None:
        """The last batch that was committed with a first record for this topic-partition."""
        committed = self._retried(lambda: self._group.committed([TopicPartition(*place)], TIMEOUT))
        return Mark.of(committed[0])

    def begin(self, place: tuple[str, int], batch: int, left: str) -> None:
        """Open a transaction that will hold the number of the batch.

        Raises:
            KafkaException: another writer has opened its producer under this transactional id since; or the broker's error.
        """
        self._failed.clear()
        self._sent.clear()
        self._producer.begin_transaction()
        offset = TopicPartition(*place, batch, left)
        self._producer.send_offsets_to_transaction([offset], self._group.consumer_group_metadata(), TIMEOUT)

    def send(self, batch: pa.RecordBatch) -> None:
        """Hand over records (columns of `SENT` and `CAUSE`).

        Raises:
            WriteError: the client refuses one, or the broker refused one of those before.
        """
        self._sent.append(batch)
        while len(self._sent) > 1 and sum(map(len, self._sent)) - len(self._sent[0]) > _QUEUED:
            self._sent.popleft()
        produce, report = self._producer.produce, self._report
        columns = [to_list(batch.column(name)) for name in SENT]
        for at, (topic, partition, key, value, timestamp, headers) in enumerate(
            zip(*columns, _pairs(batch), strict=True)
        ):
            while True:
                try:
                    if headers:
                        produce(topic, value, key, partition, report, timestamp=timestamp or EARLIEST, headers=headers)
                    else:
                        produce(topic, value, key, partition, report, timestamp=timestamp or EARLIEST)
                    break
                except BufferError:
                    self._producer.poll(0.1)
                except KafkaException as error:
                    raise WriteError(_text(error.args[0], batch.slice(at, 1), None)) from error
            if at % _POLL_EVERY == 0:
                self._producer.poll(0)
            if self._failed:
                self._check()
        self._check()

    def commit(self, batch: int) -> None:
        """Make everything visible at once, and remember the batch.

        Raises:
            WriteError: the broker refused a record.
            KafkaException: the transaction could not be committed.
        """
        self.flush()
        self._retried(lambda: self._producer.commit_transaction(TIMEOUT))
        self.last = batch

    def flush(self) -> None:
        """Wait until the broker has every record.

        Raises:
            WriteError: the broker refused a record, or had not taken all of them in time.
        """
        deadline = time.monotonic() + _TRANSACTION_MS / 1000
        waiting = 1
        while waiting and time.monotonic() < deadline:
            waiting = self._producer.flush(_LOOK_SECONDS)
            # Once a record was refused, a transaction sends no other: they would be waited for in vain.
            self._check()
        if waiting:
            raise WriteError(f"the broker did not take {waiting} records within {_TRANSACTION_MS // 1000} s")

    def abort(self) -> None:
        """Take back what was sent, as far as the broker can still be told; otherwise it will find out by itself."""
        try:
            self._producer.abort_transaction(TIMEOUT)
        except KafkaException:
            return

    def _report(self, error: KafkaError | None, message: Message) -> None:
        # Once one record fails, the rest of a transaction is thrown away and reported, too.
        if error is not None and not self._failed:
            self._failed.append((error, message))

    def _check(self) -> None:
        """Raise what the broker said of a record, with the record of a source that caused it, which is only now looked for."""
        if self._failed:
            error, message = self._failed[0]
            if error.code() in _PURGED:
                error = self._verdict() or error
            raise WriteError(
                _text(
                    error,
                    next((found for batch in self._sent if len(found := _sent_in(batch, message))), None),
                    message,
                )
            )

    def _verdict(self) -> KafkaError | None:
        """Why the transaction can no longer be committed, which its records do not tell: it cannot be begun again, and that says why."""
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            return error.args[0] if error.args[0].code() != _STATE else None
        return None

    def _retried(self, call: Callable[[], Answer]) -> Answer:
        return retried(call)


def retried(call: Callable[[], Answer]) -> Answer:
    """What a call to the broker gives, tried again where the broker has just started or lost a peer.

    Raises:
        KafkaException: any other error, or such a one for too long.
    """
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            return call()
        except KafkaException as error:
            reason = error.args[0]
            if time.monotonic() > deadline or not (reason.retriable() or reason.code() in _PASSING):
                raise
            time.sleep(0.05)


@lru_cache(maxsize=_KEPT)
def _group(config: KafkaConfig, query: str) -> Any:
    """What asks for the numbers of batches that a query has written; it never reads a record."""
    return Consumer(config.client(group_id=query, enable_auto_commit=False, isolation_level="read_committed"))


@lru_cache(maxsize=_KEPT)
def _batch_bytes(config: KafkaConfig, topics: frozenset[str]) -> int:
    """How large a batch of records may be: a topic that takes less refuses the whole batch, whose records would be small enough each."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    limits = [_BATCH_BYTES]
    for future in admin_client(config).describe_configs(resources, request_timeout=TIMEOUT).values():
        try:
            limit = int(future.result()["max.message.bytes"].value)
            limits.append(max(1, limit - limit // 20 - _FRAME_BYTES))
        except KafkaException:
            # Not everyone may read the configuration of a topic; a topic that is missing is found out later.
            continue
    return min(limits)


def _pairs(batch: pa.RecordBatch) -> Iterable[Headers | None]:
    """The headers of records as the client takes them; most records have none."""
    headers = batch.column("headers")
    if not pc.sum(pc.list_value_length(headers)).as_py():
        return repeat(None, len(batch))
    return ([(header["key"], header["value"]) for header in each or ()] for each in headers.to_pylist())


def _sent_in(batch: pa.RecordBatch, message: Message) -> pa.RecordBatch:
    """The rows of a batch that such a message may have come from."""
    found = batch
    for name, value in zip(SENT, (message.topic(), message.partition(), message.key(), message.value()), strict=False):
        column = found.column(name)
        found = found.filter(pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type)))
    return found


def _text(error: KafkaError, rows: pa.RecordBatch | None, message: Message | None) -> str:
    row = {} if rows is None else rows.slice(0, 1).to_pylist()[0]
    topic, partition = (
        (message.topic(), message.partition()) if message is not None else (row["topic"], row["partition"])
    )
    cause = [row.get(name) for name in CAUSE]
    source = f"caused by {cause[0]}-{cause[1]} at offset {cause[2]}" if cause[0] is not None else "of unknown cause"
    size = f"; it has {len(message.value() or b'') + len(message.key() or b'')} bytes" if message is not None else ""
    return f"a record for {topic}-{partition}, {source}, was refused: {error.str()}{size}"
