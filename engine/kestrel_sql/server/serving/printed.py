"""The lines of PRINT."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from kestrel_sql.admin.print_topic import printed_key_and_value
from kestrel_sql.admin.view import EngineView
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.topics.records import Record


def format_lines(source: Source | None) -> Sequence[str]:
    """What comes before the records: how their keys and values are read."""
    if source is None:
        return ["Key format: ¯\\_(ツ)_/¯ - no source is declared over the topic", "Value format: STRING"]
    formats = source.message_formats
    return [f"Key format: {formats.key_format.format}", f"Value format: {formats.value_format.format}"]


def print_line(record: Record, source: Source | None, view: EngineView) -> str:
    """One record."""
    key, value = printed_key_and_value(record, source, view)
    time = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    stamp = f"{time:%Y/%m/%d %H:%M:%S}.{record.timestamp % 1000:03d} Z"
    return f"rowtime: {stamp}, key: {key}, value: {value}, partition: {record.partition}"
