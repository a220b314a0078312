"""The rows that steps pass on, each with the record that caused it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kestrel_sql.dataflow.log_entries import FATAL
from kestrel_sql.operators.operator import Key, Value
from kestrel_sql.operators.operator import Row as OperatorRow
from kestrel_sql.topics.records import Headers, LogEntry, Record

Ordinal = tuple[int, ...]
"""The place of a row: the number of its record in the feed, that of the source among those of the topic, and then
positions among the rows that came from one row."""


@dataclass(slots=True, kw_only=True)
class Row(OperatorRow):
    """A row on its way; steps share rows, so that nobody changes one."""

    ordinal: Ordinal
    cause: Record
    headers: Headers = ()
    task: int = 0

    def with_parts(self, key: Key | None, value: Value | None, old: Value | None) -> Row:
        """Return the row with another key and other versions; `dataclasses.replace` takes three times as long."""
        return Row(
            self.side,
            key,
            value,
            self.timestamp,
            old,
            self.old_key,
            self.window,
            self.extra,
            ordinal=self.ordinal,
            cause=self.cause,
            headers=self.headers,
            task=self.task,
        )

    def with_key(self, key: Key | None) -> Row:
        """Return the row with another key."""
        return self.with_parts(key, self.value, self.old)


Rows = list[Row]


@dataclass(slots=True)
class Output:
    """What one query wrote, in order.

    `causes` has the topic, partition and offset of the source record that caused each record.
    """

    records: list[Record] = field(default_factory=list)
    causes: list[tuple[str, int, int]] = field(default_factory=list)
    log: list[LogEntry] = field(default_factory=list)


@dataclass(slots=True)
class Made:
    """What a query makes of a batch, by ordinal, until the whole batch is done."""

    records: list[tuple[Ordinal, Record, Record]] = field(default_factory=list)
    entries: list[tuple[Ordinal, LogEntry]] = field(default_factory=list)

    def log(self, row: Row, kind: int, logger: str, message: str, cause: Iterable[str], record: str | None) -> None:
        """Add an entry of the processing log about a row."""
        about = row.cause
        entry = LogEntry(
            kind=kind,
            logger=logger,
            message=message,
            topic=about.topic,
            partition=about.partition,
            offset=about.offset,
            cause=tuple(cause),
            record=record,
        )
        self.entries.append((row.ordinal, entry))

    def end(self) -> Ordinal | None:
        """The place of the row that ended the query, if one did."""
        return min((ordinal for ordinal, entry in self.entries if entry.kind == FATAL), default=None)

    def add_to(self, output: Output) -> None:
        """Hand over what was made, in order: nothing after the row that ended the query."""
        end = self.end()
        for ordinal, record, cause in sorted(self.records, key=lambda made: made[0]):
            if end is None or ordinal < end:
                output.records.append(record)
                output.causes.append((cause.topic, cause.partition, cause.offset))
        for ordinal, entry in sorted(self.entries, key=lambda made: made[0]):
            if end is None or ordinal <= end:
                output.log.append(entry)
