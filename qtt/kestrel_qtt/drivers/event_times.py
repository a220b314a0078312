"""The event time of records: that of the record, or of the column that a source names (rules O1)."""

from __future__ import annotations

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import SerdeError
from kestrel_sql.java.time.text import parse_instant
from kestrel_sql.java.time.zones import zone_of
from kestrel_sql.plan.step import TimestampColumn
from kestrel_sql.session.session import Session
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.topics.records import Record


class EventTimes:
    """Reads the event times of the records of a source."""

    def __init__(self, session: Session, source: Source, column: TimestampColumn | None) -> None:
        """Prepare to read `column` of a source, or the timestamps of its records."""
        self._column = column
        self._records = SourceRecords.of(source, session.serde())

    def of(self, record: Record) -> int | None:
        """The event time of a record (ms); None if the query drops the record for want of one."""
        if self._column is None or record.value is None:
            return None if record.value is None else record.timestamp
        try:
            found = self._records.to_row(record).get(self._column.column)
            if isinstance(found, str):
                found = parse_instant(found, self._column.format or "", zone_of("UTC"))
        except (SerdeError, ValueError):
            return None
        return found if isinstance(found, int) and found >= 0 else None
