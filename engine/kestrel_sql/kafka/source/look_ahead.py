"""Looks at the timestamps of the records that come next in partitions, to compute where a batch ends (ADR 17)."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import Message, TopicPartition

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Offsets, Position
from kestrel_sql.kafka.source.merge import Stretch
from kestrel_sql.kafka.source.ranges import (
    AT_ONCE,
    PATIENCE_S,
    WAIT_S,
    Range,
    RangeRead,
    by_position,
    open_consumer,
    silence,
    times_of,
)


class _Look(msgspec.Struct):
    """A range with the records that were seen of it."""

    read: RangeRead
    seen: Stretch

    def goes_on_from(self, start: int) -> bool:
        return self.read.wanted.start <= start <= self.read.reach

    def moved(self, wanted: Range) -> _Look:
        """The same to another range that begins in what was seen."""
        read = RangeRead(wanted)
        read.reach = self.read.reach
        first = int(np.searchsorted(self.seen.offsets, wanted.start))
        return _Look(read, Stretch(self.seen.offsets[first:], self.seen.times[first:], read.reach))

    def add(self, messages: list[Message], config: KafkaConfig) -> bool:
        """Add what a consumer sent; return whether more is known."""
        before = self.read.reach
        records, offsets = self.read.records(messages, config)
        new = bisect_left(offsets, before)
        self.seen = Stretch(
            np.concatenate([self.seen.offsets, np.array(offsets[new:], np.int64)]),
            np.concatenate([self.seen.times, times_of(records[new:])]),
            self.read.reach,
        )
        return self.read.reach > before


class BrokerAhead(msgspec.Struct):
    """Looks at the committed records of a broker.

    Each record is looked at once, however many batches end before it. A partition of which enough is known for the next
    batch is not read on.
    """

    config: KafkaConfig
    _consumer: Any = None
    _looks: dict[Position, _Look] = {}
    _assigned: set[Position] = set()

    def begin(self, start: Offsets, ends: Offsets) -> None:
        """Look at these ranges from now on; what is known of them is kept."""
        looks = {}
        for position, end in ends.items():
            wanted, known = Range(*position, start[position], end), self._looks.get(position)
            looks[position] = (
                known.moved(wanted) if known is not None and known.goes_on_from(wanted.start) else _fresh(wanted)
            )
        self._assign({p for p in self._assigned if p in looks and looks[p].read.reach == self._looks[p].read.reach})
        self._looks = looks

    def seen(self) -> Mapping[Position, Stretch]:
        """Return what was looked at of each range, from its start; it may reach beyond its end."""
        return {position: look.seen for position, look in self._looks.items()}

    def look(self, positions: Collection[Position]) -> None:
        """Look at more records of these partitions.

        Raises:
            QueryError: the broker sends none, or does not let a partition be read.
        """
        self._assign({*positions})
        wanted = [self._looks[position].read for position in positions]
        deadline = time.monotonic() + PATIENCE_S
        is_more = False
        while not is_more:
            if time.monotonic() > deadline:
                raise silence(self.config, [each.wanted for each in wanted])
            # With as many messages as are left, it returns at once when they are there.
            messages = self._consumer.consume(min(AT_ONCE, sum(each.left for each in wanted)), timeout=WAIT_S)
            for position, own in by_position(messages).items():
                if position in self._assigned:
                    is_more |= self._looks[position].add(own, self.config)

    def forget(self) -> None:
        """Forget everything."""
        self._assign(set())
        self._looks = {}

    def _assign(self, positions: set[Position]) -> None:
        """Let the consumer read these partitions, each from where it was looked at."""
        less, more = self._assigned - positions, positions - self._assigned
        if less:
            self._consumer.incremental_unassign([TopicPartition(*each) for each in sorted(less)])
        if more:
            self._consumer = self._consumer or open_consumer(self.config)
            reach = {each: self._looks[each].read.reach for each in more}
            self._consumer.incremental_assign([TopicPartition(*each, reach[each]) for each in sorted(more)])
        self._assigned = positions


def _fresh(wanted: Range) -> _Look:
    none = np.array([], np.int64)
    return _Look(RangeRead(wanted), Stretch(none, none, wanted.start))
