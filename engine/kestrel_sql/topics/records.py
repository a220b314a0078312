"""Defines records and processing-log entries, for memory streams and for a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import msgspec

Headers = tuple[tuple[str, bytes | None], ...]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a topic; `timestamp` is in ms since the epoch, `headers` keep order and duplicates."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    partition: int = 0
    offset: int = 0
    headers: Headers = ()


class Header(TypedDict):
    """A header as a member of a row."""

    key: str
    value: bytes | None


class WireRecord(TypedDict):
    """A record as the row of a frame."""

    topic: str
    part: int
    off: int
    ts: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] | None


def members_of(record: Record) -> WireRecord:
    """Return a record as the row of a frame: `topic`, `part`, `off`, `ts` (ms), `key`, `value` and `headers`."""
    return {
        "topic": record.topic,
        "part": record.partition,
        "off": record.offset,
        "ts": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": key, "value": value} for key, value in record.headers],
    }


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the processing log (rules E8).

    Attributes:
        kind: 0 deserialization, 1 record processing, 2 production, 3 serialization, 4 thread (the query ended), 5
            records that came too late, of which the first is given.
        logger: the name of the logger.
        message: what went wrong.
        topic: the topic of the source record that caused the entry; None without one.
        partition: the partition of that record.
        offset: the offset of that record.
        cause: the messages of the errors that led to this one.
        record: the key or value that could not be read, in base64 (kind 0), or the row as a JSON array (other kinds);
            None unless the query logs rows. Of records that came too late it is their number.
    """

    kind: int
    logger: str
    message: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    cause: tuple[str, ...] = ()
    record: str | None = None

    @property
    def text(self) -> str:
        """The message, followed by the causes that it does not contain."""
        return "; ".join([self.message, *(cause for cause in self.cause if cause not in self.message)])
