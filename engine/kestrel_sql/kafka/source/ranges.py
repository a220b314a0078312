"""Reads ranges of offsets of partitions with a consumer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError, Message

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import READER
from kestrel_sql.kafka.client.positions import Position

AT_ONCE = 10_000
"""The most messages that are asked for at a time."""

LAST_OFFSET = (1 << 63) - 1
"""Behind all offsets."""

WAIT_S = 0.05
PATIENCE_S = 120.0

MESSAGE: Any = Message
"""Its methods are taken from the class: to call one by name takes five times as long."""

_NO_TIME = 0

_TRANSIENT = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT})  # noqa: SLF001 - public constants
"""Errors after which the library retries by itself."""


class Range(msgspec.Struct, frozen=True):
    """The offsets of a partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def position(self) -> Position:
        """The partition."""
        return self.topic, self.partition


@dataclass(slots=True)
class RangeRead:
    """A range that is read; `reach` is the offset up to which it was."""

    wanted: Range
    reach: int = field(init=False)

    def __post_init__(self) -> None:
        self.reach = self.wanted.start

    @property
    def left(self) -> int:
        """How many of its offsets are left."""
        return max(0, self.wanted.end - self.reach)

    def records(self, messages: Sequence[Message], config: KafkaConfig) -> tuple[Sequence[Message], list[int]]:
        """Return the records among messages of the partition, which may lie behind the range, and their offsets.

        Raises:
            QueryError: the broker does not let the partition be read.
        """
        failed: list[tuple[Message, KafkaError]] = []
        records = messages
        if any(map(MESSAGE.error, messages)):
            failed = [(message, error) for message in messages if (error := message.error()) is not None]
            records = [message for message in messages if message.error() is None]
        offsets = [*map(MESSAGE.offset, records)]
        if offsets:
            self.reach = offsets[-1] + 1
        for message, error in failed:
            # The last offsets may be control records of transactions, which consumers do not see; then the end of the
            # partition is reported. A leader that is new may report an earlier end at first.
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's public constant
                self.reach = max(self.reach, message.offset() or 0)
            elif not error.retriable() and error.code() not in _TRANSIENT:
                position = f"{self.wanted.topic}, partition {message.partition()}, offset {self.wanted.start}"
                raise QueryError(f"{position} cannot be read from {config.servers}: {error.str()}")
        return records, offsets


def open_consumer(config: KafkaConfig) -> Consumer:
    """Return a consumer to which ranges are assigned."""
    own = {"group.id": "kestrel", "auto.offset.reset": "error", "log_level": 0}
    return Consumer({**config.client(), **READER, **own})


def by_position(messages: Sequence[Message]) -> Mapping[Position, list[Message]]:
    """Return messages by partition; the client returns them in long runs."""
    found: dict[Position, list[Message]] = defaultdict(list)
    at = 0
    for position, run in groupby(zip(map(MESSAGE.topic, messages), map(MESSAGE.partition, messages), strict=True)):
        count = len([*run])
        found[position].extend(messages[at : at + count])
        at += count
    return found


def times_of(records: Sequence[Message]) -> npt.NDArray[np.int64]:
    """Return the timestamps (ms) of records; one that has none gets 0."""
    times = np.fromiter(map(itemgetter(1), map(MESSAGE.timestamp, records)), np.int64, len(records))
    return np.maximum(times, _NO_TIME)


def silence(config: KafkaConfig, ranges: Sequence[Range]) -> QueryError:
    """Return the error of a broker that does not send the records of these ranges."""
    said = ", ".join(f"{each.topic}, partition {each.partition}, offset {each.start} to {each.end}" for each in ranges)
    return QueryError(f"the broker {config.servers} sent no record for {PATIENCE_S:.0f} s: {said}")
