"""What a record of a topic is, on memory streams and on a broker alike."""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; `timestamp` is in ms since the epoch, headers keep order and duplicates."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    partition: int = 0
    offset: int = 0
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """An entry of the processing log (rules E8).

    `kind` is 0 deserialization, 1 record processing, 2 production, 3 serialization, 4 thread (the query ended). Topic, partition and
    offset are those of the source record concerned. `cause` are the messages of the errors behind it. `record`, which has to be asked
    for, is the key or value that could not be read in base64 (kind 0), or the row as a JSON array.
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
        """The message with what led to it."""
        return "; ".join([self.message, *(cause for cause in self.cause if cause not in self.message)])
