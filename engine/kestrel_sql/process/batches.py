"""What the process knows of the rows of a batch besides their columns, and what a query makes of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kestrel_sql.dataflow.log_entries import FATAL
from kestrel_sql.dataflow.rows import Entry, Ordinal, Output, Rows
from kestrel_sql.operators.operator import Window
from kestrel_sql.topics.records import LogEntry, Record


class Origin(msgspec.Struct, frozen=True):
    """The ordinal, the source record, the task and the window of each row."""

    ordinals: Sequence[Ordinal]
    causes: Sequence[Record]
    tasks: Sequence[int]
    windows: Sequence[Window | None]


def ordinals_of(rows: Rows) -> list[Ordinal]:
    """Return the ordinal of each row."""
    before = rows.origin.ordinals
    if rows.positions is None:
        return [before[at] for at in rows.at]
    return [before[at] + position for at, position in zip(rows.at, rows.positions, strict=True)]


class Made(msgspec.Struct):
    """What a query makes of a batch, by ordinal, until the whole batch is done."""

    records: list[tuple[Ordinal, Record, Record]] = []
    entries: list[tuple[Ordinal, LogEntry]] = []

    def add(self, rows: Rows, at: int, entry: Entry) -> None:
        """Add an entry of the processing log about a row."""
        ordinal, about = rows.origin.ordinals[rows.at[at]], rows.origin.causes[rows.at[at]]
        self.log(ordinal if rows.positions is None else ordinal + rows.positions[at], about, entry)

    def log(self, ordinal: Ordinal, about: Record, entry: Entry) -> None:
        """Add an entry of the processing log about a source record."""
        logged = LogEntry(
            kind=entry.kind,
            logger=entry.logger,
            message=entry.message,
            topic=about.topic,
            partition=about.partition,
            offset=about.offset,
            cause=entry.cause,
            record=entry.record,
        )
        self.entries.append((ordinal, logged))

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
