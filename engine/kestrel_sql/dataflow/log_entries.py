"""Entries of the processing log (rules E8): their kinds and their form in the rows of a pipeline."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from kestrel_sql.formats.json.text import write_compact
from kestrel_sql.formats.serde import causes, describe
from kestrel_sql.operators.late_rows import Late
from kestrel_sql.topics.records import LogEntry

DESERIALIZATION, PROCESSING, PRODUCTION, SERIALIZATION, FATAL, LATE = range(6)
"""The kinds of entries.

A FATAL entry stops the query. A LATE entry tells of records that came too late for a step (rules E6.2).
"""

ROWS_INCLUDE = "ksql.logging.processing.rows.include"
"""The setting that adds the record or row to its log entries."""


def failed(kind: int, logger: str, message: str, error: Exception, record: str | None = None) -> dict[str, object]:
    """Make the entry for an error whose text is in `message`.

    The error itself is one of the causes, except when it is about reading.
    """
    own = [] if kind == DESERIALIZATION else [describe(error)]
    return {"kind": kind, "logger": logger, "message": message, "cause": [*own, *causes(error)], "record": record}


def late_entry(logger: str, late: Late) -> EntryRow:
    """Make the entry for rows that came too late; its `record` is their number."""
    start, end = late.window
    message = (
        f"Skipping record for expired window. timestamp=[{late.timestamp}] window=[{start},{end}] grace=[{late.grace}]"
        f" streamTime=[{late.time}]"
    )
    return {"kind": LATE, "logger": logger, "message": message, "cause": [], "record": str(late.count)}


def late_count(entry: LogEntry) -> int:
    """Return how many records came too late, of an entry that tells of such."""
    return int(entry.record or 1)


def base64_of(data: bytes | None) -> str | None:
    """Encode bytes for a log entry."""
    return None if data is None else b64encode(data).decode()


def json_row(values: Iterable[object]) -> str:
    """Encode a row for a log entry, as a JSON array."""
    return write_compact(list(values))


class EntryRow(TypedDict, total=False):
    """The columns of `WIRE_OUTPUT` that a log entry has."""

    kind: int
    logger: str
    message: str
    src_topic: str | None
    src_part: int | None
    src_off: int | None
    cause: Sequence[str] | None
    record: str | None


def log_entry(row: Mapping[str, Any]) -> LogEntry:
    """Make the log entry from a row of `WIRE_OUTPUT`."""
    return LogEntry(
        kind=row["kind"],
        logger=row["logger"],
        message=row["message"],
        topic=row["src_topic"],
        partition=row["src_part"],
        offset=row["src_off"],
        cause=tuple(row["cause"] or ()),
        record=row["record"],
    )
