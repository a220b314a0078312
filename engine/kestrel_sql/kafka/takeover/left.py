"""What a query of ksqlDB left on the broker: the records of its internal topics, and the offsets of its group."""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.topics.records import Record
from kestrel_sql.types.time_units import DAY_MS

CHANGELOG, REPARTITION = "-changelog", "-repartition"

_BASE64 = re.compile(rb"[A-Za-z0-9+/]*=*")
_TIME, _COUNT, _LENGTH = struct.Struct(">bq"), struct.Struct(">i"), struct.Struct(">i")
_VERSION = 2


class Committed(msgspec.Struct, frozen=True):
    """How far a query has read a partition.

    Attributes:
        offset: the offset of the next record.
        time: the largest timestamp (ms) of the partition so far; None if the metadata does not say.
        emitted: up to which time (ms) windows have been emitted, by store; empty without EMIT FINAL.
    """

    offset: int
    time: int | None = None
    emitted: Mapping[str, int] = {}

    @staticmethod
    def of(offset: int, metadata: bytes, *, is_final: bool) -> Committed:
        """Read the metadata of an offset; librdkafka may hand over bytes of other memory behind it."""
        text = _BASE64.match(metadata)
        known = b"" if text is None else text[0]
        data = b64decode(known[: len(known) // 4 * 4])
        if len(data) < _TIME.size:
            return Committed(offset)
        version, time = _TIME.unpack_from(data)
        if version != _VERSION:
            return Committed(offset)
        return Committed(offset, time, _emitted(data[_TIME.size :]) if is_final else {})


def _emitted(data: bytes) -> dict[str, int]:
    found: dict[str, int] = {}
    if len(data) < _COUNT.size:
        return found
    at = _COUNT.size
    for _ in range(*_COUNT.unpack_from(data)):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        name = data[at : at + length].decode()
        (found[name],) = struct.unpack_from(">q", data, at + length)
        at += length + 8
    return found


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What a query left.

    Attributes:
        prefix: what the names of its internal topics begin with.
        records: the committed records of its internal topics by topic, in the order of their offsets in each partition;
            of changelogs those that count are enough, the last of each key.
        committed: how far it has read its sources and its repartition topics.
        sink: reads the committed records of its sink.
        first: the offset of the oldest record of each partition of its internal topics.
        now: the time (ms) at which it was read.
    """

    prefix: str
    records: Mapping[str, Sequence[Record]]
    committed: Mapping[Position, Committed]
    sink: Callable[[], Sequence[Record]]
    first: Mapping[Position, int] = {}
    now: int = 0

    def topic(self, name: str) -> str | None:
        """Return the internal topic with a name, None if the query has none."""
        topic = f"{self.prefix}{name}"
        return topic if topic in self.records else None

    def names(self, suffix: str) -> list[str]:
        """Return the names of its changelogs or of its repartition topics."""
        return sorted(
            topic.removeprefix(self.prefix).removesuffix(suffix) for topic in self.records if topic.endswith(suffix)
        )

    def latest(self, store: str) -> list[Record]:
        """Return the last record of each key of a store, tombstones included."""
        return latest_of(self.records[f"{self.prefix}{store}{CHANGELOG}"])

    def lost(self, store: str) -> list[int]:
        """Return the partitions of a store of which the broker has deleted records that may count still.

        It deletes those of windows by their timestamps, a day later than ksqlDB forgets them, if time is that of today.
        """
        topic = f"{self.prefix}{store}{CHANGELOG}"
        begun = sorted(partition for (name, partition), first in self.first.items() if name == topic and first > 0)
        return [partition for partition in begun if (self.time(partition) or 0) < self.now - DAY_MS]

    def unread(self, topic: str) -> list[Record]:
        """Return the records of a repartition topic that the query has written and not read."""
        ends = {partition: each.offset for (name, partition), each in self.committed.items() if name == topic}
        return [record for record in self.records[topic] if record.offset >= ends.get(record.partition, 0)]

    def time(self, partition: int) -> int | None:
        """Return the stream time (ms) of a task; None if it has read nothing."""
        times = [each.time for (_, number), each in self.committed.items() if number == partition]
        return max((time for time in times if time is not None), default=None)

    def emitted(self, store: str, partition: int) -> int | None:
        """Return up to which time (ms) the windows of a store have been emitted; None if none has."""
        times = [each.emitted.get(store) for (_, number), each in self.committed.items() if number == partition]
        return max((time for time in times if time is not None), default=None)


def latest_of(records: Iterable[Record]) -> list[Record]:
    """Return the last record of each key in each partition, in the order of their offsets."""
    found: dict[tuple[int, bytes | None], Record] = {}
    for record in records:
        found.pop((record.partition, record.key), None)
        found[record.partition, record.key] = record
    return [*found.values()]
