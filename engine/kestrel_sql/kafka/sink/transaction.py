"""One writer of the sink.

A producer with a transactional id, which stays open in a Python worker of Spark from batch to batch.

The marks of a batch are committed in the transaction that writes the batch, as offsets of a consumer group, so that
either both are committed or neither.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import repeat
from operator import length_hint
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource

from kestrel_sql.arrow.columns import to_list
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.client_cache import Kept
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import committed_offsets
from kestrel_sql.kafka.client.positions import Position

Answer = TypeVar("Answer")

TIMEOUT = 60
"""The timeout (s) of requests to the broker."""

_BATCH_BYTES = 256 * 1024
_FRAME_BYTES = 512
"""The bytes of a batch that librdkafka does not count.

Its header, and the overhead of data that cannot be compressed.
"""

_LARGEST_REQUEST = 100_000_000
"""The largest request that a broker accepts. The topic limits the size of a record."""

EARLIEST = 1
"""Replaces the timestamp 0 (ms), which means "now" in librdkafka."""

_TRANSACTION_MS = 120_000
_MAX_CACHED = 16

_groups: Kept[str, Consumer] = Kept(_MAX_CACHED)

_SILENT = logging.getLogger("kestrel_sql.kafka.writer")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

_LOOK_SECONDS = 0.5
_POLL_EVERY = 2_000
_ROOM_S = 0.1
"""How long (s) to wait for room in a queue that is full."""

_QUEUED = 200_000
"""The most records in flight; their source records are remembered for errors."""

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
    # A producer that connects on demand waits for the first broker, then for the coordinator: 60 ms, sometimes 500 ms.
    # One that connects to all brokers at once takes 5 ms.
    "enable.sparse.connections": False,
    # With another one a call of a transaction may never return, in spite of its timeout (ADR 16).
    "metadata.recovery.strategy": "none",
}

_TRANSPORT, _TIMED_OUT, _STATE = -195, -185, -172
"""Error codes of librdkafka that have no public constant in the Python client."""

_PURGED = frozenset({-152, -151})
"""The error codes of the records of a transaction that failed."""

_TRANSIENT = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        _TRANSPORT,
        _TIMED_OUT,
    }
)
"""Errors of a broker that has just started or lost another broker."""


class Layout(msgspec.Struct, frozen=True):
    """How a batch is distributed: the number of writers, and of partitions by topic.

    A replay must use that of the first attempt.
    """

    slots: int
    partitions: Mapping[str, int]

    def distributes_as(self, other: Layout | None, topics: Iterable[str] | None) -> bool:
        """Return whether another layout distributes the records of these topics (None: of any) in the same way."""
        if other is None or self.slots != other.slots:
            return False
        named = {*self.partitions, *other.partitions} if topics is None else topics
        return all(self.partitions.get(topic) == other.partitions.get(topic) for topic in named)

    def to_json(self, run: int, topics: Mapping[str, int]) -> str:
        """Return the metadata that a writer commits with the number of a batch; `topics` are those of the writer."""
        return json.dumps({"run": run, "slots": self.slots, "partitions": dict(topics)}, separators=(",", ":"))


class Mark(msgspec.Struct, frozen=True):
    """What a writer has committed with a batch: the batch's number, or the offset up to which it has read."""

    number: int
    run: int
    slots: int
    partitions: Mapping[str, int]

    @staticmethod
    def of(committed: TopicPartition) -> Mark | None:
        """Read a committed offset of the consumer group; None if there is none."""
        if committed.offset < 0:
            return None
        try:
            members = json.loads(committed.metadata or "{}")
        except ValueError:
            members = {}
        return Mark(committed.offset, members.get("run", 0), members.get("slots", 0), members.get("partitions", {}))


SENT = ("topic", "value", "key", "partition", "timestamp")
CAUSE = ("src_topic", "src_part", "src_off")
"""The columns of a record to write (besides its headers), and of the source record that caused it."""


Marks = Mapping[Position, int]
"""Offsets of a consumer group that tell what a transaction has written."""


class WriteError(Exception):
    """A batch could not be written; the message is for users."""


class Writer:
    """Writes the records of one slot."""

    def __init__(
        self, config: KafkaConfig, query: str, slot: int, topics: frozenset[str], *, transactional: bool
    ) -> None:
        """Open the producer, which fences an earlier producer with the same transactional id."""
        self._topics = topics
        self._failed: list[tuple[KafkaError, Message]] = []
        self._sent: deque[pa.RecordBatch] = deque()
        self.last: Marks = {}
        """The marks of its last transaction."""
        settings = config.client(**_TUNING, batch_size=_batch_bytes(config, topics))
        if transactional:
            settings |= {"transactional.id": f"{query}-{slot}", "transaction.timeout.ms": _TRANSACTION_MS}
            self._group = _group(config, query)
        # librdkafka logs that another worker of the run has taken the slot, which users need not know.
        self._producer = Producer(settings, logger=_SILENT)
        if transactional:
            retried(lambda: self._producer.init_transactions(TIMEOUT))

    def serves(self, topics: frozenset[str]) -> bool:
        """Return whether the producer was opened for these topics, and so with their size limits."""
        return topics <= self._topics

    def committed(self, positions: Iterable[Position]) -> list[Mark | None]:
        """Return the last committed mark of each topic-partition."""
        wanted = [TopicPartition(*position) for position in positions]
        return [*map(Mark.of, retried(lambda: committed_offsets(self._group, wanted, TIMEOUT)))]

    def begin(self, marks: Marks, metadata: str) -> None:
        """Begin a transaction that commits marks, with metadata.

        Raises:
            KafkaException: another writer has taken this transactional id, or the broker refuses.
        """
        self._failed.clear()
        self._sent.clear()
        self._producer.begin_transaction()
        offsets = [TopicPartition(*position, number, metadata) for position, number in marks.items()]
        self._producer.send_offsets_to_transaction(offsets, self._group.consumer_group_metadata(), TIMEOUT)

    def send(self, batch: pa.RecordBatch) -> None:
        """Send records (columns of `SENT` and `CAUSE`).

        Raises:
            WriteError: the client refuses a record, or the broker refused an earlier one.
        """
        self._sent.append(batch)
        while len(self._sent) > 1 and sum(map(len, self._sent)) - len(self._sent[0]) > _QUEUED:
            self._sent.popleft()
        dated = _dated(batch)
        columns = [*(to_list(dated.column(name)) for name in SENT), _pairs(batch)]
        at = 0
        while at < len(batch):
            # A loop in Python would take a fifth longer. The client takes a report by two names, one of them unused.
            topics, *others, times, headers = (column[at : at + _POLL_EVERY] for column in columns)
            left = iter(topics)
            sent = map(self._producer.produce, left, *others, repeat(self._report), repeat(None), times, headers)
            try:
                deque(sent, maxlen=0)
                at += len(topics)
            except BufferError:
                at += len(topics) - length_hint(left) - 1
                self._producer.poll(_ROOM_S)
            except KafkaException as error:
                refused = at + len(topics) - length_hint(left) - 1
                raise WriteError(_text(error.args[0], batch.slice(refused, 1), None)) from error
            self._producer.poll(0)
            self._check()

    def commit(self, marks: Marks) -> None:
        """Commit the transaction, and remember its marks.

        Raises:
            WriteError: the broker refused a record.
            KafkaException: the transaction could not be committed.
        """
        self.flush()
        retried(lambda: self._producer.commit_transaction(TIMEOUT))
        self.last = marks

    def flush(self) -> None:
        """Wait until the broker has all records.

        Raises:
            WriteError: the broker refused a record, or did not accept all of them in time.
        """
        deadline = time.monotonic() + _TRANSACTION_MS / 1000
        waiting = 1
        while waiting and time.monotonic() < deadline:
            waiting = self._producer.flush(_LOOK_SECONDS)
            # Once a record is refused, the transaction sends no others, so waiting for them would be useless.
            self._check()
        if waiting:
            raise WriteError(f"the broker did not accept {waiting} records within {_TRANSACTION_MS // 1000} s")

    def abort(self) -> None:
        """Abort the transaction; if the broker does not answer, it aborts by its timeout."""
        try:
            self._producer.abort_transaction(TIMEOUT)
        except KafkaException:
            return

    def _report(self, error: KafkaError | None, message: Message) -> None:
        # Once a record fails, the other records of the transaction are discarded and reported as well.
        if error is not None and not self._failed:
            self._failed.append((error, message))

    def _check(self) -> None:
        """Raise the error of a refused record, with the source record that caused it, which is searched only now."""
        if self._failed:
            error, message = self._failed[0]
            if error.code() in _PURGED:
                error = self._abort_reason() or error
            raise WriteError(
                _text(
                    error,
                    next((found for batch in self._sent if len(found := _sent_in(batch, message))), None),
                    message,
                )
            )

    def _abort_reason(self) -> KafkaError | None:
        """Why the transaction cannot be committed.

        Errors of records do not say it, but that of beginning another transaction does.
        """
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            return error.args[0] if error.args[0].code() != _STATE else None
        return None


def retried(call: Callable[[], Answer]) -> Answer:
    """Call the broker, and retry if it has just started or lost another broker.

    Raises:
        KafkaException: any other error, or such an error for too long.
    """
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            return call()
        except KafkaException as error:
            reason = error.args[0]
            if time.monotonic() > deadline or not (reason.retriable() or reason.code() in _TRANSIENT):
                raise
            time.sleep(0.05)


def _group(config: KafkaConfig, query: str) -> Consumer:
    """The consumer that reads the numbers of committed batches of a query; it never reads a record."""

    def opened() -> Consumer:
        return Consumer(config.client(group_id=query, enable_auto_commit=False, isolation_level="read_committed"))

    return _groups.get(config, query, opened)


@lru_cache(maxsize=_MAX_CACHED)
def _batch_bytes(config: KafkaConfig, topics: frozenset[str]) -> int:
    """The most bytes of a producer batch: a topic refuses a batch over its limit, even if each record is below it."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    limits = [_BATCH_BYTES]
    for future in admin_client(config).describe_configs(resources, request_timeout=TIMEOUT).values():
        try:
            limit = int(future.result()["max.message.bytes"].value)
            limits.append(max(1, limit - limit // 20 - _FRAME_BYTES))
        except KafkaException:
            # The user may lack the ACL to read the configuration; a missing topic is reported later.
            continue
    return min(limits)


def _dated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Records without the timestamp 0."""
    times = batch.column("timestamp").fill_null(0)
    at = batch.schema.get_field_index("timestamp")
    return batch.set_column(at, "timestamp", pc.if_else(pc.equal(times, 0), EARLIEST, times))


def _pairs(batch: pa.RecordBatch) -> list[Headers | None]:
    """The headers of records in the form of the client; None for each if no record has any."""
    headers = batch.column("headers")
    if not pc.sum(pc.list_value_length(headers)).as_py():
        return [None] * len(batch)
    return [[(header["key"], header["value"]) for header in each or ()] for each in headers.to_pylist()]


def _sent_in(batch: pa.RecordBatch, message: Message) -> pa.RecordBatch:
    """The rows of a batch that may have caused this message."""
    found = batch
    for name, value in zip(SENT, (message.topic(), message.value(), message.key(), message.partition()), strict=False):
        column = found.column(name)
        found = found.filter(pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type)))
    return found


def _text(error: KafkaError, rows: pa.RecordBatch | None, message: Message | None) -> str:
    row = {} if rows is None else rows.slice(0, 1).to_pylist()[0]
    topic, partition = (
        (message.topic(), message.partition()) if message is not None else (row["topic"], row["partition"])
    )
    cause = [row.get(name) for name in CAUSE]
    source = f"caused by {cause[0]}-{cause[1]} at offset {cause[2]}" if cause[0] is not None else "of unknown origin"
    size = f"; it has {len(message.value() or b'') + len(message.key() or b'')} bytes" if message is not None else ""
    return f"a record for {topic}-{partition}, {source}, was refused: {error.str()}{size}"
